"""The JobSink controller of the embedded control plane: tells where it takes events; `sinks/job_sink.py` takes them."""

from __future__ import annotations

from datetime import UTC, datetime

from penstock.controllers.api import JOB_SINK, Key, Obj
from penstock.controllers.reconciler import ReconcilerContext
from penstock.controllers.reconcilers.access import access_of
from penstock.controllers.reconcilers.configuration import transport
from penstock.controllers.routes.route_records import JOB_SINK_HOST, access_record
from penstock.controllers.tracker import Observer
from penstock.resources.eventpolicy.rules import TargetRules
from penstock.resources.jobsink.door import Door
from penstock.resources.jobsink.status import status_of
from penstock.resources.resolution import Address
from penstock.tls import own
from penstock.tls.server import FOLDER


class JobSinkReconciler:
    """JobSinks."""

    kind = JOB_SINK

    def __init__(self, world: ReconcilerContext) -> None:
        self._world = world

    async def reconcile(self, key: Key, obj: Obj | None) -> None:
        """See `Reconciler`."""
        world, me = self._world, (JOB_SINK.kind, key)
        if obj is None:
            world.job_sink_doors.pop(key, None)
            return
        access = access_of(world, me, JOB_SINK, obj)
        record = access_record(access)
        rules = None if record is None else TargetRules(key.namespace, record)
        world.job_sink_doors[key] = Door(transport(world, me), rules)
        known = self._addresses(me, f"{JOB_SINK_HOST}/{key.namespace}/{key.name}", access.audience)
        await world.write_status(JOB_SINK, obj, status_of(obj, known, access, world.now()))

    def _addresses(self, me: Observer, place: str, audience: str | None) -> tuple[Address, ...]:
        """The one to prefer first."""
        wanted, plain = transport(self._world, me), Address(f"http://{place}", audience=audience)
        if wanted == "disabled":
            return (plain,)
        authority = own.authority_certificate(self._world.settings.data_dir / FOLDER, datetime.now(UTC)).decode()
        secure = Address(f"https://{place}", authority, audience)
        return (secure,) if wanted == "strict" else (secure, plain)
