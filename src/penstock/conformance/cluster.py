"""The installation under test, through its Kubernetes API: any kubeconfig will do."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lightkube import ApiError, AsyncClient, KubeConfig
from lightkube.codecs import from_dict
from lightkube.generic_resource import create_namespaced_resource
from lightkube.resources.core_v1 import Event, Namespace, Pod, Service
from lightkube.resources.rbac_authorization_v1 import Role, RoleBinding

from penstock.conformance.manifests import Manifest

OBSERVED = "CloudEventObserved"
POLL_SECONDS = 0.25
DELETE_SECONDS = 60.0

_MESSAGING, _EVENTING = ("messaging.knative.dev", "v1"), ("eventing.knative.dev", "v1")
KINDS: dict[str, Any] = {
    "Namespace": Namespace,
    "Role": Role,
    "RoleBinding": RoleBinding,
    "Pod": Pod,
    "Service": Service,
    "Channel": create_namespaced_resource(*_MESSAGING, "Channel", "channels"),
    "Subscription": create_namespaced_resource(*_MESSAGING, "Subscription", "subscriptions"),
    "Broker": create_namespaced_resource(*_EVENTING, "Broker", "brokers"),
    "Trigger": create_namespaced_resource(*_EVENTING, "Trigger", "triggers"),
}


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
        config = KubeConfig.from_file(path)
        self._client = AsyncClient(config, field_manager="penstock-conformance", trust_env=False)
        single = config.get()
        self.address = single.cluster.server if single else ""

    async def close(self) -> None:
        """Ends the connection."""
        await self._client.close()

    async def create(self, manifests: Sequence[Manifest]) -> list[Manifest]:
        """`kubectl create`: creates the objects in order."""
        return [_plain(await self._client.create(from_dict(manifest))) for manifest in manifests]

    async def listed(self, kind: str, namespace: str, labels: dict[str, Any] | None = None) -> list[Manifest]:
        """`kubectl get`: the objects of a kind."""
        found = self._client.list(KINDS[kind], namespace=namespace, labels=labels)
        return [_plain(item) async for item in found]

    async def observed(self, namespace: str, pod: str) -> list[str]:
        """The messages that a sink has recorded so far."""
        fields: dict[str, Any] = {"reason": OBSERVED, "involvedObject.name": pod}
        return [event.message or "" async for event in self._client.list(Event, namespace=namespace, fields=fields)]

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
        item = _plain(await self._client.get(KINDS[kind], name, namespace=namespace))
        return str(item["status"]["address"]["url"])

    async def delete_case(self, namespace: str, case: str) -> None:
        """`kubectl delete all -l case=…`: everything that the test has created."""
        for kind in ("Subscription", "Trigger", "Service", "Pod"):
            for item in await self.listed(kind, namespace, {"case": case}):
                await self._delete(kind, item["metadata"]["name"], namespace)
        for _ in range(int(DELETE_SECONDS / POLL_SECONDS)):
            if not await self.listed("Pod", namespace, {"case": case}):
                return
            await asyncio.sleep(POLL_SECONDS)

    async def delete_namespace(self, namespace: str, seconds: float) -> bool:
        """Deletes a namespace with all it holds; tells whether it was gone within `seconds`."""
        await self._delete("Namespace", namespace, None)
        deadline = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < deadline:
            try:
                await self._client.get(Namespace, namespace)
            except ApiError as error:
                if error.status.code == 404:
                    return True
                raise
            await asyncio.sleep(POLL_SECONDS)
        return False

    async def _delete(self, kind: str, name: str, namespace: str | None) -> None:
        try:
            if namespace is None:
                await self._client.delete(KINDS[kind], name)
            else:
                await self._client.delete(KINDS[kind], name, namespace=namespace)
        except ApiError as error:
            if error.status.code != 404:
                raise


def _plain(item: Any) -> Manifest:
    plain: Manifest = item.to_dict()
    return plain


def _ready(item: Manifest) -> Manifest:
    conditions = (item.get("status") or {}).get("conditions") or ()
    return next((condition for condition in conditions if condition.get("type") == "Ready"), {})


def _not_ready(item: Manifest) -> str:
    ready = _ready(item)
    why = ready.get("message") or ready.get("reason") or "no Ready condition yet"
    return f"{item.get('kind', 'object')}/{item['metadata']['name']}: {ready.get('status', 'Unknown')} ({why})"
