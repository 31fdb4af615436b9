"""The IntegrationSource controller of the embedded control plane: a ContainerSource that runs the connector."""

from __future__ import annotations

from penstock.controllers.reconciler import ReconcilerContext
from penstock.controllers.reconcilers.configuration import features_of
from penstock.controllers.reconcilers.parts import PartFailed, Parts
from penstock.kube.kinds import CONTAINER_SOURCE, INTEGRATION_SOURCE, Key, Obj
from penstock.resources import features
from penstock.resources.integrationsource import IntegrationSource, status_of


class IntegrationSourceReconciler:
    """IntegrationSources."""

    kind = INTEGRATION_SOURCE

    def __init__(self, context: ReconcilerContext) -> None:
        self._context = context

    async def reconcile(self, key: Key, obj: Obj | None) -> None:
        """See `Reconciler`."""
        if obj is None:
            return
        context, me = self._context, (INTEGRATION_SOURCE.kind, key)
        wanted, parts = IntegrationSource.read(obj), Parts(context, me, obj)
        made, failure = None, None
        try:
            if wanted.is_supported:
                asked = bool((obj.get("status") or {}).get("sinkAudience"))
                with_token = asked and features.enabled_by(features.OIDC, features_of(context, me))
                part = wanted.container_source(with_token=with_token)
                made = await parts.own(part)
                if made.get("spec") != part["spec"]:
                    # `own` leaves fields that are no longer wanted; `ensure` removes them.
                    made = await parts.ensure(part)
            else:
                await parts.remove([(CONTAINER_SOURCE, Key(key.namespace, wanted.part_name))])
        except PartFailed as failed:
            failure = str(failed)
        await context.write_status(INTEGRATION_SOURCE, obj, status_of(obj, made, failure, context.now()))
