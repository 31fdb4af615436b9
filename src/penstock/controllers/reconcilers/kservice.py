"""The controller of Knative Services of the embedded control plane: a Deployment and a Service for each.

On a real cluster Knative Serving does this, and the controller does not run.
"""

from __future__ import annotations

from penstock.controllers.reconciler import ReconcilerContext
from penstock.controllers.reconcilers.parts import PartFailed, Parts
from penstock.kube.kinds import SERVING_SERVICE, Key, Obj
from penstock.resources.kservice import KService, KServiceObservation, status_of


class KServiceReconciler:
    """Services of serving.knative.dev."""

    kind = SERVING_SERVICE

    def __init__(self, context: ReconcilerContext) -> None:
        self._context = context

    async def reconcile(self, key: Key, obj: Obj | None) -> None:
        """See `Reconciler`."""
        if obj is None:
            return
        parts = Parts(self._context, (SERVING_SERVICE.queue, key), obj)
        wanted = KService.read(obj)
        deployment, deployment_failure = await _own(parts, wanted.deployment())
        _, service_failure = await _own(parts, wanted.service())
        seen = KServiceObservation(deployment, deployment_failure, service_failure)
        await self._context.write_status(SERVING_SERVICE, obj, status_of(obj, seen, self._context.now()))


async def _own(parts: Parts, wanted: Obj) -> tuple[Obj | None, str | None]:
    try:
        return await parts.own(wanted), None
    except PartFailed as failed:
        return None, str(failed)
