"""The node's side of the Kubernetes API: Pods watched, their status written, Events recorded, Pods removed.

Nothing here decides anything. The same calls work against any Kubernetes API.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Literal

from lightkube import ApiError, AsyncClient
from lightkube.models.authentication_v1 import BoundObjectReference, TokenRequestSpec, TokenReviewSpec
from lightkube.models.core_v1 import EventSource, ObjectReference
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.authentication_v1 import TokenReview
from lightkube.resources.core_v1 import ConfigMap, Event, Pod, Secret, ServiceAccount, ServiceAccountToken
from lightkube.types import PatchType

from penstock.timestamps import rfc3339
from penstock.workloads.processes.environment import ConfigError, Kind

Manifest = dict[str, Any]

NODE_NAME = "penstock"

TOKEN_SECONDS = 365 * 24 * 3600
"""A program's token is not renewed while it runs."""
RECORD_TRIES = 5
RECORD_PAUSE_SECONDS = 0.2


@dataclass(frozen=True)
class PodChange:
    """Something about a Pod: it is there (new or changed), or gone."""

    kind: Literal["present", "gone"]
    pod: Manifest


@dataclass(frozen=True)
class PodList:
    """All Pods there are: what a watch that starts anew begins with."""

    pods: list[Manifest]


class PodApi:
    """Calls of the node."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def follow(self) -> AsyncIterator[PodList | PodChange]:
        """All Pods, then every change, until the connection breaks."""
        listed = self._client.list(Pod, namespace="*")
        pods = [pod.to_dict() async for pod in listed]
        yield PodList(pods)
        async for verb, pod in self._client.watch(Pod, namespace="*", resource_version=listed.resourceVersion):
            yield PodChange("gone" if verb == "DELETED" else "present", pod.to_dict())

    async def write_status(self, pod: Manifest, status: Manifest) -> None:
        """Replaces the status; a Pod that is gone by now is fine."""
        await self._patch(pod, {"status": status}, subresource=True)

    async def bind(self, pod: Manifest) -> None:
        """Says which node runs the Pod."""
        await self._patch(pod, {"spec": {"nodeName": NODE_NAME}})

    async def annotate(self, pod: Manifest, name: str, value: str) -> None:
        """Sets one annotation."""
        await self._patch(pod, {"metadata": {"annotations": {name: value}}})

    async def remove(self, pod: Manifest) -> None:
        """Ends the deletion of a Pod that has stopped."""
        metadata = pod["metadata"]
        try:
            await self._client.delete(Pod, metadata["name"], namespace=metadata["namespace"], grace_period=0)
        except ApiError as error:
            if error.status.code != 404:
                raise

    async def entries(self, pod: Manifest, kind: Kind, name: str) -> dict[str, str] | None:
        """The entries of a ConfigMap or Secret beside the Pod, as text; None where it does not exist."""
        found = await self.files(pod, kind, name)
        return None if found is None else {key: value.decode(errors="replace") for key, value in found.items()}

    async def files(self, pod: Manifest, kind: Kind, name: str) -> dict[str, bytes] | None:
        """The entries of a ConfigMap or Secret beside the Pod; None where it does not exist."""
        namespace = pod["metadata"]["namespace"]
        try:
            if kind == "configmap":
                configmap = await self._client.get(ConfigMap, name, namespace=namespace)
                texts = {key: value.encode() for key, value in (configmap.data or {}).items()}
                return texts | _decoded(configmap.binaryData)
            return _decoded((await self._client.get(Secret, name, namespace=namespace)).data)
        except ApiError as error:
            if error.status.code != 404:
                raise
            return None

    async def token(
        self, pod: Manifest, account: str, audience: str | None = None, seconds: int | None = None
    ) -> str | None:
        """A token of a ServiceAccount beside the Pod; None where the API gives none. Raises ConfigError."""
        namespace = pod["metadata"]["namespace"]
        try:
            await self._client.get(ServiceAccount, account, namespace=namespace)
        except ApiError as error:
            if error.status.code != 404:
                raise
            raise ConfigError(f'serviceaccounts "{account}" not found') from None
        reference = BoundObjectReference(
            apiVersion="v1", kind="Pod", name=pod["metadata"]["name"], uid=pod["metadata"].get("uid")
        )
        wanted = TokenRequestSpec(
            audiences=[audience] if audience else [],
            boundObjectRef=reference,
            expirationSeconds=seconds or TOKEN_SECONDS,
        )
        try:
            asked = ServiceAccountToken(spec=wanted, metadata=ObjectMeta(name=account, namespace=namespace))
            made = await self._client.create(asked, account, namespace=namespace)
        except ApiError as error:
            if error.status.code not in (404, 405):
                raise
            return None
        return made.status.token if made.status else None

    async def review(self, token: str, audience: str) -> Manifest | None:
        """Whose a token is that is for this audience; None where it is nobody's, or for another."""
        asked = TokenReview(spec=TokenReviewSpec(token=token, audiences=[audience]))
        status = (await self._client.create(asked)).status
        return status.user.to_dict() if status and status.authenticated and status.user else None

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
        """Writes a Kubernetes Event about the Pod, in several tries."""
        metadata = pod["metadata"]
        now = rfc3339()
        event = Event(
            metadata=ObjectMeta(name=name, namespace=metadata["namespace"]),
            involvedObject=ObjectReference(
                apiVersion="v1",
                kind="Pod",
                name=metadata["name"],
                namespace=metadata["namespace"],
                uid=metadata.get("uid"),
                resourceVersion=metadata.get("resourceVersion"),
            ),
            reason=reason,
            message=message,
            type="Warning" if warning else "Normal",
            count=count,
            source=EventSource(component=component, host=NODE_NAME),
            reportingComponent=component,
            reportingInstance=NODE_NAME,
        ).to_dict()
        event |= {"firstTimestamp": now, "lastTimestamp": now, "eventTime": None}
        await self._create(event)

    async def recount(self, pod: Manifest, name: str, count: int) -> bool:
        """An Event that is there happened again; whether it is still there."""
        again = {"count": count, "lastTimestamp": rfc3339()}
        try:
            await self._client.patch(
                Event, name, again, namespace=pod["metadata"]["namespace"], patch_type=PatchType.MERGE
            )
        except ApiError as error:
            if error.status.code != 404:
                raise
            return False
        return True

    async def _create(self, event: Manifest) -> None:
        for attempt in range(RECORD_TRIES):
            try:
                await self._client.create(_as_event(event))
            except ApiError as error:
                if error.status.code == 409 and error.status.reason == "AlreadyExists":
                    # A container that was started again counts from 1 again; its reports get names of their own.
                    event["metadata"] = {**event["metadata"], "name": f"{event['metadata']['name']}.again"}
                elif attempt == RECORD_TRIES - 1 or (error.status.code or 500) in (400, 403, 404, 422):
                    raise
            except Exception:
                if attempt == RECORD_TRIES - 1:
                    raise
            else:
                return
            await asyncio.sleep(RECORD_PAUSE_SECONDS * attempt)

    async def _patch(self, pod: Manifest, patch: Manifest, *, subresource: bool = False) -> None:
        metadata = pod["metadata"]
        kind = Pod.Status if subresource else Pod
        try:
            await self._client.patch(
                kind, metadata["name"], patch, namespace=metadata["namespace"], patch_type=PatchType.MERGE
            )
        except ApiError as error:
            if error.status.code != 404:
                raise


def _decoded(entries: dict[str, str] | None) -> dict[str, bytes]:
    return {key: base64.b64decode(value) for key, value in (entries or {}).items()}


def _as_event(manifest: Manifest) -> Event:
    event = Event.from_dict(manifest)
    assert isinstance(event, Event)  # noqa: S101  # the library's own type says less than it gives
    return event
