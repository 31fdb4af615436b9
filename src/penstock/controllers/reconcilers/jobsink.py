"""The JobSink controller of the embedded control plane: its address, at which `sinks/job_sink.py` accepts events."""

from __future__ import annotations

from penstock.controllers.reconciler import ReconcilerContext
from penstock.controllers.reconcilers.access import access_of
from penstock.controllers.reconcilers.configuration import service_addresses, transport
from penstock.controllers.routes.route_records import JOB_SINK_HOST, access_record
from penstock.kube.kinds import JOB_SINK, Key, Obj
from penstock.resources.eventpolicy import SinkGuard, TargetRules
from penstock.resources.jobsink import status_of


class JobSinkReconciler:
    """JobSinks."""

    kind = JOB_SINK

    def __init__(self, context: ReconcilerContext) -> None:
        self._context = context

    async def reconcile(self, key: Key, obj: Obj | None) -> None:
        """See `Reconciler`."""
        context, me = self._context, (JOB_SINK.kind, key)
        if obj is None:
            context.job_sink_guards.pop(key, None)
            return
        access = access_of(context, me, JOB_SINK, obj)
        record = access_record(access)
        rules = None if record is None else TargetRules(key.namespace, record)
        context.job_sink_guards[key] = SinkGuard(transport(context, me), rules)
        known = service_addresses(context, me, f"{JOB_SINK_HOST}/{key.namespace}/{key.name}", access.audience)
        await context.write_status(JOB_SINK, obj, status_of(obj, known, access, context.now()))
