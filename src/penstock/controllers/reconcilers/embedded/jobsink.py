"""The JobSink controller of the embedded control plane: tells where it takes events; `sinks/job_sink.py` takes them."""

from __future__ import annotations

from penstock.controllers.api import JOB_SINK, Key, Obj
from penstock.controllers.reconciler import ReconcilerContext
from penstock.controllers.routes.route_records import JOB_SINK_HOST
from penstock.resources.jobsink.status import status_of


class JobSinkReconciler:
    """JobSinks."""

    kind = JOB_SINK

    def __init__(self, world: ReconcilerContext) -> None:
        self._world = world

    async def reconcile(self, key: Key, obj: Obj | None) -> None:
        """See `Reconciler`."""
        if obj is not None:
            url = f"http://{JOB_SINK_HOST}/{key.namespace}/{key.name}"
            await self._world.write_status(JOB_SINK, obj, status_of(obj, url, self._world.now()))
