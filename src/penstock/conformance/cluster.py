"""The installation under test, through its Kubernetes API: any kubeconfig will do."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from penstock.conformance.catalog import Manifest
from penstock.kube.client import AsyncClient, Selection
from penstock.kube.config import read_config
from penstock.kube.errors import NotFound
from penstock.kube.kinds import BROKER, CHANNEL, EVENT, NAMESPACE, POD, SERVICE, SUBSCRIPTION, TRIGGER, Key, Kind

OBSERVED = "CloudEventObserved"
POLL_SECONDS = 0.25
DELETE_SECONDS = 60.0

KINDS = {kind.kind: kind for kind in (NAMESPACE, POD, SERVICE, CHANNEL, SUBSCRIPTION, BROKER, TRIGGER)}


class NotReady(Exception):
    """Objects did not become ready in time. The message says which, and what their conditions say."""


def kubeconfig(given: Path | None, data_dir: Path) -> Path:
    """The kubeconfig to use: the given one, the stack's in `data_dir`, or the user's. Raises FileNotFoundError."""
    own = data_dir / "kubeconfig"
    usual = Path(os.environ.get("KUBECONFIG", "").partition(os.pathsep)[0] or Path.home() / ".kube" / "config")
    candidates = [given] if given else [own, usual]
    for path in candidates:
        if path.is_file():
            return path
    raise FileNotFoundError(f"there is no kubeconfig at {' or '.join(map(str, candidates))}")


class Cluster:
    """Calls of the runner."""

    def __init__(self, path: Path) -> None:
        self._client = AsyncClient(read_config(path), field_manager="penstock-conformance")
        self.address = self._client.url

    async def close(self) -> None:
        """Ends the connection."""
        await self._client.close()

    async def create(self, manifests: Sequence[Manifest]) -> list[Manifest]:
        """`kubectl create`: creates the objects in order."""
        return [await self._client.create(Kind(one["apiVersion"], one["kind"]), one) for one in manifests]

    async def listed(self, kind: str, namespace: str, labels: dict[str, Any] | None = None) -> list[Manifest]:
        """`kubectl get`: the objects of a kind."""
        return (await self._client.list(KINDS[kind], namespace, Selection(labels=labels or {}))).objects

    async def observed(self, namespace: str, pod: str) -> list[str]:
        """The messages that a sink has recorded so far."""
        chosen = Selection(fields={"reason": OBSERVED, "involvedObject.name": pod})
        return [event.get("message") or "" for event in (await self._client.list(EVENT, namespace, chosen)).objects]

    async def until_ready(self, namespace: str, kinds: Sequence[str], labels: dict[str, Any], seconds: float) -> None:
        """Waits until every object of these kinds is Ready=True. Raises NotReady."""
        deadline = asyncio.get_running_loop().time() + seconds
        while True:
            objects = [item for kind in kinds for item in await self.listed(kind, namespace, labels)]
            waiting = [_not_ready(item) for item in objects if _ready(item).get("status") != "True"]
            if objects and not waiting:
                return
            if asyncio.get_running_loop().time() >= deadline:
                raise NotReady(f"not ready after {seconds:g} s: {'; '.join(waiting) or 'nothing was created'}")
            await asyncio.sleep(POLL_SECONDS)

    async def address_of(self, kind: str, namespace: str, name: str) -> str:
        """`status.address.url` of a Broker or Channel."""
        item = await self._client.get(KINDS[kind], Key(namespace, name))
        return str(item["status"]["address"]["url"])

    async def delete_case(self, namespace: str, case: str) -> None:
        """`kubectl delete all -l case=…`: everything that the test has created."""
        for kind in ("Subscription", "Trigger", "Service", "Pod"):
            for item in await self.listed(kind, namespace, {"case": case}):
                await self._delete(KINDS[kind], Key(namespace, item["metadata"]["name"]))
        for _ in range(int(DELETE_SECONDS / POLL_SECONDS)):
            if not await self.listed("Pod", namespace, {"case": case}):
                return
            await asyncio.sleep(POLL_SECONDS)

    async def delete_namespace(self, namespace: str, seconds: float) -> bool:
        """Deletes a namespace with all it holds; returns whether it was gone within `seconds`."""
        await self._delete(NAMESPACE, Key("", namespace))
        deadline = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < deadline:
            if await self._client.read(NAMESPACE, Key("", namespace)) is None:
                return True
            await asyncio.sleep(POLL_SECONDS)
        return False

    async def _delete(self, kind: Kind, key: Key) -> None:
        with contextlib.suppress(NotFound):
            await self._client.delete(kind, key)


def _ready(item: Manifest) -> Manifest:
    conditions = (item.get("status") or {}).get("conditions") or ()
    return next((condition for condition in conditions if condition.get("type") == "Ready"), {})


def _not_ready(item: Manifest) -> str:
    ready = _ready(item)
    why = ready.get("message") or ready.get("reason") or "no Ready condition yet"
    return f"{item.get('kind', 'object')}/{item['metadata']['name']}: {ready.get('status', 'Unknown')} ({why})"
