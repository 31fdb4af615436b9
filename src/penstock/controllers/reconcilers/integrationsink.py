"""The IntegrationSink controller of the embedded control plane: a Deployment that logs events, and a Service for it.

`sinks/guarded_services.py` checks tokens and EventPolicies in front of it, and then serves TLS too.
"""

from __future__ import annotations

from penstock.controllers.reconciler import ReconcilerContext
from penstock.controllers.reconcilers.access import access_of
from penstock.controllers.reconcilers.configuration import service_addresses, transport
from penstock.controllers.reconcilers.parts import PartFailed, Parts
from penstock.controllers.reconcilers.services import guard_service
from penstock.kube.kinds import DEPLOYMENT, INTEGRATION_SINK, SERVICE, Key, Obj
from penstock.oidc.names import child_name
from penstock.resources.integrationsink import SUFFIX, IntegrationSink, IntegrationSinkObservation, status_of


class IntegrationSinkReconciler:
    """IntegrationSinks."""

    kind = INTEGRATION_SINK

    def __init__(self, context: ReconcilerContext) -> None:
        self._context = context

    async def reconcile(self, key: Key, obj: Obj | None) -> None:
        """See `Reconciler`."""
        context, me = self._context, (INTEGRATION_SINK.kind, key)
        service = Key(key.namespace, child_name(key.name, SUFFIX))
        if obj is None:
            context.service_guards.pop(service, None)
            return
        wanted, encryption = IntegrationSink.read(obj), transport(context, me)
        access = access_of(context, me, INTEGRATION_SINK, obj)
        guarded = guard_service(context, service, encryption, access)
        parts = Parts(context, me, obj)
        deployment, failure = None, None
        try:
            if wanted.is_supported:
                deployment = await parts.own(wanted.deployment("disabled" if guarded else encryption))
                await parts.own(wanted.service(encryption, guarded=guarded))
            else:
                await parts.remove([(DEPLOYMENT, service), (SERVICE, service)])
        except PartFailed as failed:
            failure = str(failed)
        known = service_addresses(context, me, wanted.host, access.audience)
        seen = IntegrationSinkObservation(deployment, known, failure, access)
        await context.write_status(INTEGRATION_SINK, obj, status_of(obj, seen, context.now()))
