"""The EventType controller: looks whether what an EventType refers to exists."""

from __future__ import annotations

from penstock.controllers.reconciler import ReconcilerContext
from penstock.controllers.tracker import Observer
from penstock.kube.kinds import EVENT_TYPE, Key, Kind, Obj
from penstock.resources.eventtype import EventTypeObservation, reference_of, status_of


class EventTypeReconciler:
    """EventTypes, written by people or made of what passes."""

    kind = EVENT_TYPE

    def __init__(self, world: ReconcilerContext) -> None:
        self._world = world

    async def reconcile(self, key: Key, obj: Obj | None) -> None:
        """See `Reconciler`."""
        if obj is not None:
            seen = self._observe((EVENT_TYPE.kind, key), obj)
            await self._world.write_status(EVENT_TYPE, obj, status_of(obj, seen, self._world.now()))

    def _observe(self, me: Observer, obj: Obj) -> EventTypeObservation:
        reference = reference_of(obj)
        if reference is None:
            return EventTypeObservation(refers=False)
        kind = Kind(reference.api_version, reference.kind)
        found = self._world.tracker.look(me, kind, Key(reference.namespace, reference.name))
        unserved = self._world.tracker.informer(kind).unserved
        return EventTypeObservation(refers=True, found=found is not None, unreadable=unserved)
