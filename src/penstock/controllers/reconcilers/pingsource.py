"""The PingSource controller: resolves the sink, has `PingRunner` send the events, and writes how that goes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from penstock.controllers.reconciler import ReconcilerContext
from penstock.controllers.reconcilers.access import identity_of
from penstock.controllers.reconcilers.destinations import resolve
from penstock.controllers.reconcilers.eventtype import DescribedEvents
from penstock.controllers.tracker import Observer
from penstock.kube.kinds import PING_SOURCE, Key, Obj
from penstock.resources.destinations import ResolvedAddress
from penstock.resources.pingsource import PingObservation, PingSource, status_of
from penstock.resources.schedules import BadSchedule, CronSchedule, parse
from penstock.sources.deliveries import Sinks
from penstock.sources.pings import Ping, PingRunner
from penstock.sources.ticks import Missed, TickNotes

NOTES = "sources.db"


class PingSourceReconciler:
    """PingSources, and the runner that sends the events of all of them."""

    kind = PING_SOURCE

    def __init__(self, context: ReconcilerContext, enqueue: Callable[[Observer], None], sinks: Sinks) -> None:
        self._context, self._enqueue = context, enqueue
        self._described = DescribedEvents(context, "pingsource")
        self._keys: dict[str, Key] = {}
        self._uids: dict[Key, str] = {}
        self.runner = PingRunner(lambda: TickNotes(context.settings.data_dir / NOTES), sinks.send, self)

    async def reconcile(self, key: Key, obj: Obj | None) -> None:
        """See `Reconciler`."""
        self._follow(key, None if obj is None else str(obj["metadata"]["uid"]))
        if obj is None:
            return
        context, source = self._context, PingSource.read(obj)
        sink = resolve(source.sink, key.namespace, context.tracker.lookup((PING_SOURCE.kind, key)))
        schedule, problem = _schedule(source)
        identity = await identity_of(context, (PING_SOURCE.kind, key), PING_SOURCE, obj)
        if schedule is not None and isinstance(sink, ResolvedAddress):
            self.runner.put(Ping(source, schedule, replace(sink, account=identity.account)))
        else:
            self.runner.pause(source.identity.uid)
        seen = PingObservation(sink, problem, self.runner.trouble(source.identity.uid), identity)
        status = status_of(obj, seen, context.now())
        await context.write_status(PING_SOURCE, obj, status)
        await self._described.ensure((PING_SOURCE.kind, key), obj, status, source.event_source)

    def trouble_changed(self, uid: str) -> None:
        """Has the status updated."""
        if uid in self._keys:
            self._enqueue((PING_SOURCE.kind, self._keys[uid]))

    def ticks_missed(self, uid: str, missed: Missed) -> None:
        """Records an Event."""
        obj = self._context.tracker.informer(PING_SOURCE).get(self._keys[uid]) if uid in self._keys else None
        if obj is not None:
            self._context.recorder.warning(obj, "TicksMissed", str(missed))

    def _follow(self, key: Key, uid: str | None) -> None:
        """An object that was created again under the same name is another source."""
        former = self._uids.get(key)
        if former is not None and former != uid:
            self.runner.remove(former)
            del self._uids[key], self._keys[former]
        if uid is not None:
            self._uids[key], self._keys[uid] = uid, key


def _schedule(source: PingSource) -> tuple[CronSchedule | None, str | None]:
    try:
        return parse(source.schedule, source.timezone), None
    except BadSchedule as error:
        return None, str(error)
