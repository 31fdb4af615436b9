"""The EventTransform controller of the embedded control plane: a Deployment that transforms, and a Service for it.

While its sink cannot be resolved, what runs stays as it was, and nothing new is started: without its sink it would
answer events that it should pass on.
"""

from __future__ import annotations

from penstock.controllers.api import DEPLOYMENT, EVENT_TRANSFORM, Key, Obj
from penstock.controllers.reconciler import ReconcilerContext
from penstock.controllers.reconcilers.configuration import service_addresses, transport
from penstock.controllers.reconcilers.destinations import resolve_optional
from penstock.controllers.reconcilers.parts import PartFailed, Parts
from penstock.resources.destinations.resolution import ResolvedAddress, Unresolved
from penstock.resources.eventtransform.model import EventTransform
from penstock.resources.eventtransform.status import EventTransformObservation, status_of


class EventTransformReconciler:
    """EventTransforms."""

    kind = EVENT_TRANSFORM

    def __init__(self, world: ReconcilerContext) -> None:
        self._world = world

    async def reconcile(self, key: Key, obj: Obj | None) -> None:
        """See `Reconciler`."""
        if obj is None:
            return
        world, me = self._world, (EVENT_TRANSFORM.kind, key)
        wanted, encryption = EventTransform.read(obj), transport(world, me)
        sink = resolve_optional(wanted.sink, key.namespace, world.tracker.lookup(me))
        parts = Parts(world, me, obj)
        failure = None
        try:
            if isinstance(sink, Unresolved):
                deployment = world.tracker.look(me, DEPLOYMENT, Key(key.namespace, wanted.part_name))
            else:
                url = sink.url if isinstance(sink, ResolvedAddress) else None
                deployment = await parts.own(wanted.deployment(url, encryption))
            await parts.own(wanted.service(encryption))
        except PartFailed as failed:
            deployment, failure = None, str(failed)
        known = service_addresses(world, me, wanted.host, None)
        seen = EventTransformObservation(deployment, sink, known, failure)
        await world.write_status(EVENT_TRANSFORM, obj, status_of(obj, seen, world.now()))
