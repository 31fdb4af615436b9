"""What every controller has: the context it looks at, a way to write a status, and workers that drive it.

A reconciler looks at one object and what that refers to, claims the records the data plane needs, and writes the
status that follows. It may run at any time, any number of times; what it does depends on the present state only.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol

import structlog

from penstock.controllers.queue import WorkQueue
from penstock.controllers.recorder import EventRecorder
from penstock.controllers.routes.dataplane import DataPlane
from penstock.controllers.routes.publisher import Publisher
from penstock.controllers.tracker import NotYetKnown, Observer, Tracker
from penstock.kube.client import AsyncClient
from penstock.kube.errors import Conflict, NotFound
from penstock.kube.kinds import Key, Kind, Obj
from penstock.observability.logs import describe
from penstock.resources.conditions import READY, find
from penstock.resources.destinations import EVENTS_RETAINED, EXPIRING
from penstock.resources.eventpolicy import SinkGuard
from penstock.runtime.tasks import Owner
from penstock.runtime.times import rfc3339
from penstock.settings import Settings

log = structlog.get_logger()

ON_THE_WAY = frozenset(
    {
        "EndpointSlicesUnavailable",
        "BrokerNotConfigured",
        "BrokerNotReady",
        "ChannelsNotReady",
        "SubscriptionsNotReady",
        "emptyAddress",
        "JsonataDeploymentUnavailable",
        "WaitingForServiceEndpoints",
        "NotReady",
        "EmptyHostname",
        "SubjectMissing",
        "MinimumReplicasUnavailable",
    }
)
"""Reasons for Ready=False that only say that something is not finished yet; no Event tells of them."""


@dataclass
class ReconcilerContext:
    """Everything a reconciler may look at or act on."""

    settings: Settings
    api: AsyncClient
    tracker: Tracker
    publisher: Publisher
    dataplane: DataPlane
    recorder: EventRecorder
    reply_keys: dict[Key, list[bytes]] = field(default_factory=dict)
    """By which each RequestReply knows the replies to its requests, the newest first."""
    job_sink_guards: dict[Key, SinkGuard] = field(default_factory=dict)
    """From whom each JobSink takes events."""
    service_guards: dict[Key, SinkGuard] = field(default_factory=dict)
    """From whom Services take events for which Pods of the project work, where tokens are asked for."""
    guarded_pods: dict[Key, tuple[str, ...]] = field(default_factory=dict)
    """The addresses of their Pods that are ready."""
    guard_ports: Mapping[str, str] = field(default_factory=dict)
    """Where requests to those Services are checked: an address for each port of theirs."""

    @property
    def embedded(self) -> bool:
        """Whether the API is penstock's own, so that names and endpoints are for penstock to provide."""
        return self.settings.kubeconfig is None

    def now(self) -> str:
        """The time as statuses carry it."""
        return rfc3339()

    async def write_status(self, kind: Kind, obj: Obj, status: dict[str, Any]) -> None:
        """Stores the status if it is another than the object has; tells of a failure that is new."""
        before = obj.get("status") or {}
        if before == status:
            return
        changed = copy.copy(obj)
        changed["status"] = status
        try:
            written = await self.api.replace_status(kind, changed)
        except NotFound:
            return
        self.tracker.informer(kind).saw(written)
        self._tell_of_failure(obj, before, status)

    async def create(self, kind: Kind, obj: Obj) -> Obj:
        """Creates the object; whoever looks at the kind sees it from now on."""
        created = await self.api.create(kind, obj)
        self.tracker.informer(kind).saw(created)
        return created

    async def write_spec(self, kind: Kind, obj: Obj) -> None:
        """Stores the object with its changed spec."""
        written = await self.api.replace(kind, obj)
        self.tracker.informer(kind).saw(written)

    def _tell_of_failure(self, obj: Obj, before: dict[str, Any], after: dict[str, Any]) -> None:
        for failure in new_failures(before, after):
            # The reason of an Event is one word; some of Knative's reasons are sentences.
            given = str(failure.get("reason") or "NotReady")
            words = given.replace("'", "").split()
            reason = words[0] if len(words) == 1 else "".join(word[:1].upper() + word[1:] for word in words)
            self.recorder.warning(obj, reason, failure.get("message") or given)


def new_failures(before: dict[str, Any], after: dict[str, Any]) -> list[Mapping[str, Any]]:
    """The conditions that tell of a failure and did not before: Ready, and the loss of events, also one to come."""
    failures = []
    for kind in (READY, EVENTS_RETAINED):
        was, now = find(before.get("conditions"), kind) or {}, find(after.get("conditions"), kind) or {}
        before_it, new = ((one.get("status"), one.get("reason"), one.get("message")) for one in (was, now))
        failed = now.get("status") == "False" and now.get("reason") not in ON_THE_WAY
        if (failed or now.get("reason") == EXPIRING) and before_it != new:
            failures.append(now)
    return failures


class Reconciler(Protocol):
    """The controller of one kind."""

    kind: Kind

    async def reconcile(self, key: Key, obj: Obj | None) -> None:
        """Brings about what the object asks for; None: there is no such object any more."""


class ReconcilerWorkers:
    """Drives the reconcilers: a queue per kind, a few workers each."""

    PER_KIND = 4

    def __init__(self) -> None:
        self._queues: dict[str, WorkQueue[Key]] = {}
        self._owner = Owner()

    def enqueue(self, observer: Observer) -> None:
        """Has the object looked at."""
        kind, key = observer
        if kind in self._queues:
            self._queues[kind].add(key)

    def enqueue_later(self, observer: Observer, seconds: float | None) -> None:
        """Has the object looked at after so many seconds, whatever was asked before; None: only when it changes."""
        kind, key = observer
        if kind in self._queues:
            self._queues[kind].add_at(key, seconds)

    def enqueue_all(self, context: ReconcilerContext, kind: Kind) -> None:
        """Has every object of the kind looked at."""
        for obj in context.tracker.informer(kind).all():
            self.enqueue((kind.queue, Key(obj["metadata"].get("namespace") or "", obj["metadata"]["name"])))

    def register(self, reconciler: Reconciler, context: ReconcilerContext) -> None:
        """Gives the reconciler a queue that fills with the changes of its kind. Work begins with `start`."""
        name = reconciler.kind.queue
        self._queues[name] = WorkQueue()
        context.tracker.informer(reconciler.kind).listen(lambda key, _: self.enqueue((name, key)))

    def start(self, reconcilers: list[Reconciler], context: ReconcilerContext) -> None:
        """Begins work."""
        for reconciler in reconcilers:
            for number in range(self.PER_KIND):
                self._owner.start(self._work(reconciler, context), f"{reconciler.kind.kind} worker {number}")

    async def passed(self) -> None:
        """Returns when every object that waits to be looked at has been looked at."""
        await asyncio.gather(*(queue.passed() for queue in self._queues.values()))

    def any_fails(self, kinds: Iterable[Kind]) -> bool:
        """Whether there are objects of these kinds that could not be reconciled and are to be tried again."""
        return any(queue.fails for queue in self._queues_of(kinds))

    async def recovered(self, kinds: Iterable[Kind]) -> None:
        """Returns when there are none, or were none of each kind when it was looked at."""
        for queue in self._queues_of(kinds):
            await queue.recovered()

    def _queues_of(self, kinds: Iterable[Kind]) -> list[WorkQueue[Key]]:
        return [self._queues[kind.queue] for kind in kinds if kind.queue in self._queues]

    async def failed(self) -> NoReturn:
        """Waits for a worker to fail, and raises why."""
        await self._owner.failed()

    async def close(self) -> None:
        """Ends work; what is under way is cut off, and taken up again at the next start."""
        await self._owner.close()
        for queue in self._queues.values():
            queue.close()

    async def _work(self, reconciler: Reconciler, context: ReconcilerContext) -> None:
        queue = self._queues[reconciler.kind.queue]
        while True:
            key = await queue.take()
            failed = False
            try:
                await self._reconcile(reconciler, context, key)
            except Exception as error:  # one object that cannot be reconciled is tried again and holds up no other
                failed = True
                self._note(reconciler.kind, key, error)
            finally:
                queue.done(key, failed=failed)

    async def _reconcile(self, reconciler: Reconciler, context: ReconcilerContext, key: Key) -> None:
        observer = (reconciler.kind.queue, key)
        context.tracker.forget(observer)
        obj = context.tracker.informer(reconciler.kind).get(key)
        if obj is not None and obj["metadata"].get("deletionTimestamp"):
            obj = None
        try:
            await reconciler.reconcile(key, obj)
        except NotYetKnown:
            # The tracker enqueues the object as soon as the kind it refers to has been listed.
            return

    def _note(self, kind: Kind, key: Key, error: Exception) -> None:
        if isinstance(error, Conflict):
            # Somebody else wrote in between; the watch brings the new state, and the key comes back.
            log.debug("a write met a newer object", kind=kind.kind, namespace=key.namespace, name=key.name)
            return
        log.warning(
            "reconciling failed and is tried again",
            kind=kind.kind,
            namespace=key.namespace,
            name=key.name,
            error=describe(error),
        )
