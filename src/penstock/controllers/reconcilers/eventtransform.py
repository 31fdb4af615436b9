"""The EventTransform controller of the embedded control plane: a Deployment that transforms, and a Service for it.

While its sink cannot be resolved, a running Deployment stays as it is and none is created: without its sink it would
return events in its responses that it should send to the sink. `sinks/guarded_services.py` checks tokens and
EventPolicies in front of it, and then serves TLS too.
"""

from __future__ import annotations

from penstock.controllers.reconciler import ReconcilerContext
from penstock.controllers.reconcilers.access import access_of
from penstock.controllers.reconcilers.configuration import service_addresses, transport
from penstock.controllers.reconcilers.destinations import resolve_optional
from penstock.controllers.reconcilers.parts import PartFailed, Parts
from penstock.controllers.reconcilers.services import guard_service
from penstock.kube.kinds import DEPLOYMENT, EVENT_TRANSFORM, Key, Obj
from penstock.oidc.names import child_name
from penstock.resources.destinations import ResolvedAddress, Unresolved
from penstock.resources.eventtransform import SUFFIX, EventTransform, EventTransformObservation, status_of


class EventTransformReconciler:
    """EventTransforms."""

    kind = EVENT_TRANSFORM

    def __init__(self, context: ReconcilerContext) -> None:
        self._context = context

    async def reconcile(self, key: Key, obj: Obj | None) -> None:
        """See `Reconciler`."""
        context, me = self._context, (EVENT_TRANSFORM.kind, key)
        service = Key(key.namespace, child_name(key.name, SUFFIX))
        if obj is None:
            context.service_guards.pop(service, None)
            return
        wanted, encryption = EventTransform.read(obj), transport(context, me)
        access = access_of(context, me, EVENT_TRANSFORM, obj)
        guarded = guard_service(context, service, encryption, access)
        sink = resolve_optional(wanted.sink, key.namespace, context.tracker.lookup(me))
        parts = Parts(context, me, obj)
        failure = None
        try:
            if isinstance(sink, Unresolved):
                deployment = context.tracker.look(me, DEPLOYMENT, Key(key.namespace, wanted.part_name))
            else:
                url = sink.url if isinstance(sink, ResolvedAddress) else None
                deployment = await parts.own(wanted.deployment(url, "disabled" if guarded else encryption))
            await parts.own(wanted.service(encryption, guarded=guarded))
        except PartFailed as failed:
            deployment, failure = None, str(failed)
        known = service_addresses(context, me, wanted.host, access.audience)
        seen = EventTransformObservation(deployment, sink, known, failure, access)
        await context.write_status(EVENT_TRANSFORM, obj, status_of(obj, seen, context.now()))
