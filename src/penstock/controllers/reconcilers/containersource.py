"""The ContainerSource controller: a Deployment that runs the containers, and a SinkBinding that sets their `K_SINK`."""

from __future__ import annotations

from penstock.controllers.reconciler import ReconcilerContext
from penstock.controllers.reconcilers.parts import PartFailed, Parts
from penstock.kube.kinds import CONTAINER_SOURCE, Key, Kind, Obj
from penstock.resources.containersource import (
    DEPLOYMENT,
    ContainerObservation,
    deployment_of,
    is_within,
    sink_binding_of,
    status_of,
)


class ContainerSourceReconciler:
    """ContainerSources."""

    kind = CONTAINER_SOURCE

    def __init__(self, context: ReconcilerContext) -> None:
        self._context = context

    async def reconcile(self, key: Key, obj: Obj | None) -> None:
        """See `Reconciler`."""
        if obj is None:
            return
        context = self._context
        parts = Parts(context, (CONTAINER_SOURCE.kind, key), obj)
        wanted, binding, deployment, failure = deployment_of(obj), sink_binding_of(obj), None, None
        try:
            binding = await parts.ensure(binding)
            if (binding.get("status") or {}).get("sinkUri") or parts.has((Kind(*DEPLOYMENT), _key(wanted))):
                # Without a sink its containers would only start to fail.
                deployment = await self._deployment(parts, wanted)
        except PartFailed as error:
            failure = str(error)
        seen = ContainerObservation(wanted["metadata"]["name"], binding, deployment, failure)
        await context.write_status(CONTAINER_SOURCE, obj, status_of(obj, seen, context.now()))

    async def _deployment(self, parts: Parts, wanted: Obj) -> Obj:
        held = await parts.exists(wanted)
        spec = held.get("spec") or {}
        if is_within(wanted["spec"]["template"], spec.get("template")):
            return held
        return await parts.ensure({**wanted, "spec": {**spec, "template": wanted["spec"]["template"]}})


def _key(part: Obj) -> Key:
    return Key(part["metadata"]["namespace"], part["metadata"]["name"])
