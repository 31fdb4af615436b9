"""The node's calls of the Kubernetes API: watches Pods, writes their status, records Events, removes Pods."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from typing import Literal

from penstock.kube import kinds
from penstock.kube.client import AsyncClient
from penstock.kube.errors import Conflict, KubeError, NotFound
from penstock.kube.kinds import CONFIG_MAP, EVENT, POD, SECRET, SERVICE_ACCOUNT_KIND, TOKEN_REVIEW, Key, Obj, key_of
from penstock.kube.list_watch import Changed, Interrupted, Listed, list_and_watch
from penstock.kube.paths import NotASegment
from penstock.resources.metadata import NODE_NAME
from penstock.runtime.times import rfc3339
from penstock.workloads.processes.environment import ConfigError, Kind

Manifest = Obj

TOKEN_SECONDS = 365 * 24 * 3600
"""A program's token is not renewed while it runs."""
GIVES_NO_TOKENS = (404, 405)
RECORD_TRIES = 5
RECORD_PAUSE_SECONDS = 0.2


@dataclass(frozen=True)
class PodChange:
    """A Pod is new or changed (`present`), or deleted (`gone`)."""

    kind: Literal["present", "gone"]
    pod: Manifest


@dataclass(frozen=True)
class PodList:
    """All Pods, at the start of a watch."""

    pods: list[Manifest]


class PodApi:
    """Calls of the node."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def follow(self) -> AsyncIterator[PodList | PodChange | Interrupted]:
        """All Pods, then every change, and interruptions of the watch."""
        async for news in list_and_watch(partial(self._client.list, POD), partial(self._client.watch, POD)):
            match news:
                case Listed(pods):
                    yield PodList(pods)
                case Changed(change, pod):
                    yield PodChange("gone" if change == "DELETED" else "present", pod)
                case _:
                    yield news

    async def write_status(self, pod: Manifest, status: Manifest) -> None:
        """Writes the status. A deleted Pod is ignored."""
        with contextlib.suppress(NotFound):
            await self._client.patch_status(POD, key_of(pod), {"status": status})

    async def bind(self, pod: Manifest) -> None:
        """Assigns the Pod to this node."""
        await self._patch(pod, {"spec": {"nodeName": NODE_NAME}})

    async def annotate(self, pod: Manifest, name: str, value: str) -> None:
        """Sets one annotation."""
        await self._patch(pod, {"metadata": {"annotations": {name: value}}})

    async def remove(self, pod: Manifest) -> None:
        """Ends the deletion of a Pod that has stopped."""
        with contextlib.suppress(NotFound):
            await self._client.delete(POD, key_of(pod), grace_seconds=0)

    async def entries(self, pod: Manifest, kind: Kind, name: str) -> dict[str, str] | None:
        """The entries of a ConfigMap or Secret beside the Pod, as text; None where it does not exist."""
        found = await self.files(pod, kind, name)
        return None if found is None else {key: value.decode(errors="replace") for key, value in found.items()}

    async def files(self, pod: Manifest, kind: Kind, name: str) -> dict[str, bytes] | None:
        """The entries of a ConfigMap or Secret beside the Pod; None where it does not exist. Raises ConfigError for a
        name that none can have."""
        key = Key(pod["metadata"]["namespace"], name)
        found = await self._beside(CONFIG_MAP if kind == "configmap" else SECRET, key)
        if found is None:
            return None
        if kind == "secret":
            return _decoded(found.get("data"))
        texts = {name: value.encode() for name, value in (found.get("data") or {}).items()}
        return texts | _decoded(found.get("binaryData"))

    async def token(
        self, pod: Manifest, account: str, audience: str | None = None, seconds: int | None = None
    ) -> str | None:
        """A token of a ServiceAccount beside the Pod; None where the API gives none. Raises ConfigError."""
        metadata = pod["metadata"]
        key = Key(metadata["namespace"], account)
        if await self._beside(SERVICE_ACCOUNT_KIND, key) is None:
            raise ConfigError(f'serviceaccounts "{account}" not found')
        bound = {name: metadata[name] for name in ("name", "uid") if name in metadata}
        wanted = {
            "audiences": [audience] if audience else [],
            "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", **bound},
            "expirationSeconds": seconds or TOKEN_SECONDS,
        }
        try:
            made = await self._client.token(key, wanted)
        except KubeError as error:
            if error.code not in GIVES_NO_TOKENS:
                raise
            return None
        return made.get("token")

    async def review(self, token: str, audience: str) -> Manifest | None:
        """The user of a token for this audience; None for an invalid token or another audience."""
        reviewed = await self._client.create(TOKEN_REVIEW, {"spec": {"token": token, "audiences": [audience]}})
        status: Manifest = reviewed.get("status") or {}
        return status.get("user") if status.get("authenticated") else None

    async def record(
        self,
        pod: Manifest,
        *,
        name: str,
        reason: str,
        message: str,
        component: str = NODE_NAME,
        warning: bool = False,
        count: int = 1,
    ) -> None:
        """Writes a Kubernetes Event about the Pod, with retries."""
        metadata, now = pod["metadata"], rfc3339()
        about = {name: metadata[name] for name in ("name", "namespace", "uid", "resourceVersion") if name in metadata}
        await self._create(
            {
                "metadata": {"name": name, "namespace": metadata["namespace"]},
                "involvedObject": {"apiVersion": "v1", "kind": "Pod", **about},
                "reason": reason,
                "message": message,
                "type": "Warning" if warning else "Normal",
                "count": count,
                "source": {"component": component, "host": NODE_NAME},
                "reportingComponent": component,
                "reportingInstance": NODE_NAME,
                "firstTimestamp": now,
                "lastTimestamp": now,
                "eventTime": None,
            }
        )

    async def recount(self, pod: Manifest, name: str, count: int) -> bool:
        """Updates the count of an Event; whether it still exists."""
        again = {"count": count, "lastTimestamp": rfc3339()}
        try:
            await self._client.patch(EVENT, Key(pod["metadata"]["namespace"], name), again)
        except NotFound:
            return False
        return True

    async def _create(self, event: Manifest) -> None:
        for attempt in range(RECORD_TRIES):
            try:
                await self._client.create(EVENT, event)
            except Conflict:
                # A restarted container numbers its reports from 1 again, so they need other names.
                event["metadata"] = {**event["metadata"], "name": f"{event['metadata']['name']}.again"}
            except KubeError as error:
                if attempt == RECORD_TRIES - 1 or not error.is_temporary:
                    raise
            else:
                return
            await asyncio.sleep(RECORD_PAUSE_SECONDS * attempt)

    async def _beside(self, kind: kinds.Kind, key: Key) -> Manifest | None:
        """An object beside the Pod; None where there is none. Raises ConfigError for a name that none can have."""
        try:
            return await self._client.get(kind, key)
        except NotASegment as error:
            raise ConfigError(str(error)) from None
        except NotFound:
            return None

    async def _patch(self, pod: Manifest, patch: Manifest) -> None:
        with contextlib.suppress(NotFound):
            await self._client.patch(POD, key_of(pod), patch)


def _decoded(entries: dict[str, str] | None) -> dict[str, bytes]:
    return {key: base64.b64decode(value) for key, value in (entries or {}).items()}
