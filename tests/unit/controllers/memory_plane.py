"""A control plane in memory: real reconcilers, informers, queues and publisher over doubles of API and Kafka."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from penstock.contract import reports
from penstock.contract.reports import COMPONENTS, Ack
from penstock.contract.routes import Record
from penstock.controllers.reconciler import ReconcilerContext, ReconcilerWorkers
from penstock.controllers.reconcilers.eventtype import EventTypeMaker
from penstock.controllers.recorder import EventRecorder
from penstock.controllers.routes.dataplane import DataPlane
from penstock.controllers.routes.publisher import Publisher
from penstock.controllers.routes.route_health import Announcer
from penstock.controllers.service import run_controllers
from penstock.controllers.tracker import Tracker
from penstock.kube.kinds import CONFIG_MAP, POD, Kind, Obj
from penstock.resources.conditions import find
from penstock.runtime.lifecycle import Lifecycle
from penstock.settings import Settings
from tests.unit.controllers.api_double import ApiDouble, TopicDouble


class AcknowledgingDataPlane(DataPlane):
    """Acknowledges each version as soon as it is published, unless it is holding."""

    holding = False

    def start(self) -> None:
        """Follows nothing."""

    def published(self, version: int) -> None:
        super().published(version)
        if not self.holding:
            self.acknowledge(version)

    async def close(self) -> None:
        """Follows nothing."""

    def acknowledge(self, version: int) -> None:
        """Every component acts by the version."""
        for component in COMPONENTS:
            ack = Ack(component, "one", version, time.time())
            self.take(reports.key_of(ack), ack)


class ControlPlane:
    """One process of controllers."""

    def __init__(self, api: ApiDouble, topic: TopicDouble, settings: Settings) -> None:
        self.api, self.topic = api, topic
        self._workers = ReconcilerWorkers()
        tracker = Tracker(api, self._workers.enqueue)  # type: ignore[arg-type]
        publisher = Publisher(topic, self._workers.enqueue, topic.kept)  # type: ignore[arg-type]
        recorder = EventRecorder(api)  # type: ignore[arg-type]
        self._lifecycle = Lifecycle()
        types = EventTypeMaker(api, tracker, publisher)  # type: ignore[arg-type]
        self.dataplane = AcknowledgingDataPlane(
            settings,
            publisher,
            self._workers.enqueue,
            lambda: None,
            type_seen=types.take,
            announce=Announcer(tracker, recorder, self._lifecycle.news),
            losses_shown=3600,
        )
        self.context = ReconcilerContext(settings, api, tracker, publisher, self.dataplane, recorder)  # type: ignore[arg-type]
        self._task = asyncio.create_task(run_controllers(self.context, self._workers, self._lifecycle, types))

    async def stop(self) -> None:
        """Ends as a killed process does: nothing is finished."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._workers.close()
        await self.context.tracker.close()

    async def ended(self) -> None:
        """Waits for the end of its work, and raises what ended it."""
        await asyncio.wait_for(asyncio.shield(self._task), 60)

    async def until(self, look: Callable[[], Any], seconds: float = 60.0) -> Any:
        """The first true thing that `look` returns."""
        deadline = time.monotonic() + seconds
        while not (seen := look()):
            if self._task.done():
                self._task.result()
            if time.monotonic() > deadline:
                raise AssertionError(f"waited in vain; objects: {self.api.describe()}")
            await asyncio.sleep(0.005)
        return seen

    async def settled(self) -> None:
        """Returns when nothing has changed for a while."""
        quiet, before, deadline = 0, None, time.monotonic() + 60
        while quiet < 8:
            await asyncio.sleep(0.01)
            if time.monotonic() > deadline:
                raise AssertionError(f"it never comes to rest; last writes: {self.api.journal[-12:]}")
            now = (self.api.version, self.context.publisher.version)
            quiet, before = (quiet + 1 if now == before else 0), now

    def ready(self, kind: Kind, name: str, namespace: str = "ns") -> bool:
        return self.condition(kind, name, namespace=namespace).get("status") == "True"

    def condition(self, kind: Kind, name: str, condition: str = "Ready", namespace: str = "ns") -> dict[str, Any]:
        obj = self.api.get(kind, namespace, name) or {}
        return dict(find((obj.get("status") or {}).get("conditions"), condition) or {})

    def switch(self, **features: str) -> None:
        """What `config-features` says from now on."""
        data = {name.replace("_", "-"): value for name, value in features.items()}
        metadata = {"name": "config-features", "namespace": "knative-eventing"}
        self.api.apply(CONFIG_MAP, {"metadata": metadata, "data": data})

    async def run_pod(self, meant: Callable[[Obj], object]) -> None:
        """What the node does: the Pod that is meant runs and is ready."""
        found = await self.until(lambda: next((pod for pod in self.api.all(POD).values() if meant(pod)), None))
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        self.api._store(POD, {**found, "status": {"phase": "Running", "conditions": [ready]}}, "MODIFIED")

    def records(self) -> dict[str, Record]:
        """What is published."""
        return self.topic.read().records


Starter = Callable[[], Awaitable[ControlPlane]]
