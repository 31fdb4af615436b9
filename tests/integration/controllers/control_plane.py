"""A real control plane for tests: embedded API server, controllers, Kafka; and a data plane that only acknowledges."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterator
from functools import cache
from typing import Any

from lightkube import ApiError, Client, KubeConfig
from lightkube.core.resource import ApiInfo, ResourceDef
from lightkube.generic_resource import GenericNamespacedResource, GenericNamespacedStatus, create_api_info

from penstock.apiserver import service as apiserver_service
from penstock.contract.reports import COMPONENTS, Component
from penstock.contract.snapshot import Snapshot
from penstock.controllers import service as controllers_service
from penstock.kafka.reports import Reporter
from penstock.kafka.table import SnapshotFollower
from penstock.kube.kinds import Kind, Obj
from penstock.runtime.lifecycle import Lifecycle
from penstock.settings import Settings

READY_SECONDS, STOP_SECONDS = 120, 60
Run = Callable[[Settings, Lifecycle], Coroutine[Any, Any, None]]


class _Announced(Lifecycle):
    """Tells another thread when the component is ready."""

    def __init__(self, announced: threading.Event) -> None:
        super().__init__()
        self._announced = announced

    def ready(self, **details: Any) -> None:
        super().ready(**details)
        self._announced.set()


class Running:
    """A component in a thread of its own."""

    def __init__(self, run: Run, settings: Settings) -> None:
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._main, args=(run, settings), daemon=True)
        self._thread.start()
        if not self._ready.wait(READY_SECONDS) or self._failure:
            raise RuntimeError(f"{run.__module__} did not become ready: {self._failure!r}")

    def stop(self) -> None:
        """Tells it to stop and waits."""
        self._loop.call_soon_threadsafe(self._lifecycle.stopping.set)
        self._thread.join(STOP_SECONDS)
        assert not self._thread.is_alive(), "the component does not stop"
        if self._failure:
            raise self._failure

    def _main(self, run: Run, settings: Settings) -> None:
        async def main() -> None:
            self._loop, self._lifecycle = asyncio.get_running_loop(), _Announced(self._ready)
            await run(settings, self._lifecycle)

        try:
            asyncio.run(main())
        except BaseException as failure:  # the test's thread reports it
            self._failure = failure
            self._ready.set()


class Restartable:
    """A component that a test may stop and start again."""

    def __init__(self, run: Run, settings: Settings) -> None:
        self._run, self._settings = run, settings
        self._running: Running | None = Running(run, settings)

    def stop(self) -> None:
        """Stops it if it runs."""
        if self._running is not None:
            self._running.stop()
            self._running = None

    def start(self) -> None:
        """Starts it and waits until it is ready."""
        self._running = Running(self._run, self._settings)


@contextlib.contextmanager
def running(run: Run, settings: Settings) -> Iterator[Running]:
    """The component while the block runs."""
    component = Running(run, settings)
    try:
        yield component
    finally:
        component.stop()


run_apiserver = apiserver_service.run
run_controllers = controllers_service.run


@cache
def resource_of(kind: Kind) -> Any:
    """lightkube's class for the kind."""
    version = kind.api_version.rpartition("/")[2]
    info = create_api_info(kind.group, version, kind.kind, kind.plural)
    of = ResourceDef(kind.group, version, kind.kind)
    status_info = ApiInfo(resource=of, parent=of, plural=kind.plural, verbs=["get", "patch", "put"], action="status")
    status = type(f"{kind.kind}Status", (GenericNamespacedStatus,), {"_api_info": status_info})
    return type(kind.kind, (GenericNamespacedResource,), {"_api_info": info, "Status": status})


class Cluster:
    """What a user does to the API, with a client that is not penstock's."""

    def __init__(self, settings: Settings) -> None:
        self._client = Client(KubeConfig.from_file(settings.data_dir / "kubeconfig"), trust_env=False)

    def close(self) -> None:
        self._client.close()

    def create(
        self, kind: Kind, name: str, namespace: str = "default", annotations: Obj | None = None, **body: Any
    ) -> Obj:
        metadata = {"name": name, "namespace": namespace, **({"annotations": annotations} if annotations else {})}
        return dict(self._client.create(resource_of(kind)({"metadata": metadata, **body})))

    def create_labelled(self, kind: Kind, name: str, labels: dict[str, str], **body: Any) -> Obj:
        metadata = {"name": name, "namespace": "default", "labels": labels}
        return dict(self._client.create(resource_of(kind)({"metadata": metadata, **body})))

    def define(self, definition: Obj) -> None:
        """Creates a CustomResourceDefinition."""
        from lightkube.resources.apiextensions_v1 import CustomResourceDefinition

        made = CustomResourceDefinition.from_dict(definition)
        assert isinstance(made, CustomResourceDefinition)
        self._client.create(made)

    def declare_addressable(self, group: str, plural: str) -> None:
        """Lets the control plane read a kind, as whoever installs one does."""
        from lightkube.resources.rbac_authorization_v1 import ClusterRole

        role = ClusterRole.from_dict(
            {
                "metadata": {
                    "name": f"{plural}-addressable-resolver",
                    "labels": {"duck.knative.dev/addressable": "true"},
                },
                "rules": [{"apiGroups": [group], "resources": [plural], "verbs": ["get", "list", "watch"]}],
            }
        )
        assert isinstance(role, ClusterRole)
        self._client.create(role)

    def create_namespace(self, name: str) -> None:
        from lightkube.models.meta_v1 import ObjectMeta
        from lightkube.resources.core_v1 import Namespace

        self._client.create(Namespace(metadata=ObjectMeta(name=name)))

    def delete(self, kind: Kind, name: str, namespace: str = "default") -> None:
        self._client.delete(resource_of(kind), name, namespace=namespace)

    def patch(self, kind: Kind, name: str, patch: Obj, namespace: str = "default") -> Obj:
        from lightkube.types import PatchType

        return dict(self._client.patch(resource_of(kind), name, patch, namespace=namespace, patch_type=PatchType.MERGE))

    def put_status(self, kind: Kind, name: str, status: Obj, namespace: str = "default") -> None:
        obj = self.get(kind, name, namespace)
        assert obj is not None
        self._client.replace(resource_of(kind).Status({**obj, "status": status}))

    def get(self, kind: Kind, name: str, namespace: str = "default") -> Obj | None:
        try:
            return dict(self._client.get(resource_of(kind), name, namespace=namespace))
        except ApiError as error:
            if error.status.code == 404:
                return None
            raise

    def list(self, kind: Kind, namespace: str = "default") -> list[Obj]:
        return [dict(obj) for obj in self._client.list(resource_of(kind), namespace=namespace)]

    def condition(self, kind: Kind, name: str, condition: str = "Ready", namespace: str = "default") -> Obj:
        """The condition; empty if there is none."""
        found = (self.get(kind, name, namespace) or {}).get("status", {}).get("conditions", [])
        return next((c for c in found if c["type"] == condition), {})

    def ready(self, kind: Kind, name: str, namespace: str = "default") -> bool:
        return self.condition(kind, name, namespace=namespace).get("status") == "True"


class DataPlaneStandIn:
    """Acknowledges every version, as the real components do; can hold back."""

    def __init__(self, settings: Settings) -> None:
        self.snapshot = Snapshot()
        self.holding = False
        self.failures: list[BaseException] = []
        self._reporters: dict[Component, Reporter] = {
            component: Reporter(settings, component, "stand-in", self._failed) for component in COMPONENTS
        }
        self._follower = SnapshotFollower(settings, self._take, self._failed)
        self._follower.start()

    def _failed(self, error: BaseException) -> None:
        self.failures.append(error)

    def _take(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        if not self.holding:
            self.acknowledge()

    def acknowledge(self) -> None:
        """Acts by the newest snapshot from now on."""
        for reporter in self._reporters.values():
            reporter.ack(self.snapshot.version)

    def lose(self, route: str, partition: int, first: int, last: int) -> None:
        """Reports events that were gone."""
        self._reporters["dispatcher"].loss(route, partition, first, last)

    def close(self) -> None:
        self._follower.stop()
        for reporter in self._reporters.values():
            reporter.close()
        assert self.failures == []
