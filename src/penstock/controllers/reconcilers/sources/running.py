"""The sources as a whole: their controllers, what runs for them, and the connections to their sinks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from penstock.controllers.reconciler import Reconciler, ReconcilerContext
from penstock.controllers.reconcilers.sources.apiserversource import ApiServerSourceReconciler
from penstock.controllers.reconcilers.sources.containersource import ContainerSourceReconciler
from penstock.controllers.reconcilers.sources.pingsource import PingSourceReconciler
from penstock.controllers.reconcilers.sources.sinkbinding import SinkBindingReconciler
from penstock.controllers.tracker import Observer
from penstock.sources.sinks import Sinks


class Sources:
    """Everything about sources that one control plane has."""

    def __init__(self, world: ReconcilerContext, enqueue: Callable[[Observer], None]) -> None:
        self._sinks = Sinks(world.publisher.locate)
        self._pings = PingSourceReconciler(world, enqueue, self._sinks)
        self._watches = ApiServerSourceReconciler(world, enqueue, self._sinks)
        self.reconcilers: list[Reconciler] = [
            self._pings,
            self._watches,
            ContainerSourceReconciler(world),
            SinkBindingReconciler(world, enqueue),
        ]

    async def run(self) -> None:
        """Runs them until cancelled. To be started when every object has been looked at once."""
        async with self._sinks, asyncio.TaskGroup() as group:
            group.create_task(self._pings.runner.run(), name="PingSources")
            group.create_task(self._watches.run(), name="ApiServerSources")
