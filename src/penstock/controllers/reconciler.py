"""What all controllers share: the context with everything a reconciler uses, and the workers that run reconcilers.

A reconciler reads one object and what it refers to, claims the records that the data plane needs, and writes the
status. It may run at any time and any number of times; what it does depends on the present state only.
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
from penstock.runtime.tasks import TaskScope
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
"""Reasons for Ready=False that only mean that something is not finished yet; no Event is recorded for them."""


@dataclass
class ReconcilerContext:
    """Everything that a reconciler may read or act on."""

    settings: Settings
    api: AsyncClient
    tracker: Tracker
    publisher: Publisher
    dataplane: DataPlane
    recorder: EventRecorder
    reply_keys: dict[Key, list[bytes]] = field(default_factory=dict)
    """The keys with which each RequestReply verifies replies to its requests, the newest first."""
    job_sink_guards: dict[Key, SinkGuard] = field(default_factory=dict)
    """Which senders each JobSink accepts."""
    service_guards: dict[Key, SinkGuard] = field(default_factory=dict)
    """Which senders the Services of EventTransforms and IntegrationSinks accept, where tokens are required."""
    guarded_pods: dict[Key, tuple[str, ...]] = field(default_factory=dict)
    """The addresses of the ready Pods of those Services."""
    guard_ports: Mapping[str, str] = field(default_factory=dict)
    """By port of those Services: the address of the server that checks their requests."""

    @property
    def embedded(self) -> bool:
        """Whether the API is penstock's own, so that penstock must provide names and endpoints."""
        return self.settings.kubeconfig is None

    def now(self) -> str:
        """The time in the format of statuses."""
        return rfc3339()

    async def write_status(self, kind: Kind, obj: Obj, status: dict[str, Any]) -> None:
        """Stores the status if it differs from that of the object, and records an Event for each new failure."""
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
        self._record_failures(obj, before, status)

    async def create(self, kind: Kind, obj: Obj) -> Obj:
        """Creates the object; the informer of its kind has it from now on."""
        created = await self.api.create(kind, obj)
        self.tracker.informer(kind).saw(created)
        return created

    async def write_spec(self, kind: Kind, obj: Obj) -> None:
        """Stores the object with its changed spec."""
        written = await self.api.replace(kind, obj)
        self.tracker.informer(kind).saw(written)

    def _record_failures(self, obj: Obj, before: dict[str, Any], after: dict[str, Any]) -> None:
        for failure in new_failures(before, after):
            # The reason of an Event is one word; some of Knative's reasons are sentences.
            given = str(failure.get("reason") or "NotReady")
            words = given.replace("'", "").split()
            reason = words[0] if len(words) == 1 else "".join(word[:1].upper() + word[1:] for word in words)
            self.recorder.warning(obj, reason, failure.get("message") or given)


def new_failures(before: dict[str, Any], after: dict[str, Any]) -> list[Mapping[str, Any]]:
    """The conditions that report a failure and did not before: Ready, and the loss of events, also an imminent one."""
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
        """Makes the actual state match the object; None: the object was deleted."""


class ReconcilerWorkers:
    """Runs the reconcilers: a queue per kind, a few workers each."""

    PER_KIND = 4

    def __init__(self) -> None:
        self._queues: dict[str, WorkQueue[Key]] = {}
        self._owner = TaskScope()

    def enqueue(self, observer: Observer) -> None:
        """Has the object reconciled."""
        kind, key = observer
        if kind in self._queues:
            self._queues[kind].add(key)

    def enqueue_later(self, observer: Observer, seconds: float | None) -> None:
        """Has the object reconciled after so many seconds, instead of an earlier time; None: only when it changes."""
        kind, key = observer
        if kind in self._queues:
            self._queues[kind].add_at(key, seconds)

    def enqueue_all(self, context: ReconcilerContext, kind: Kind) -> None:
        """Has every object of the kind reconciled."""
        for obj in context.tracker.informer(kind).all():
            self.enqueue((kind.queue, Key(obj["metadata"].get("namespace") or "", obj["metadata"]["name"])))

    def register(self, reconciler: Reconciler, context: ReconcilerContext) -> None:
        """Gives the reconciler a queue, which gets every change of its kind. Work begins with `start`."""
        name = reconciler.kind.queue
        self._queues[name] = WorkQueue()
        context.tracker.informer(reconciler.kind).listen(lambda key, _: self.enqueue((name, key)))

    def start(self, reconcilers: list[Reconciler], context: ReconcilerContext) -> None:
        """Starts the workers."""
        for reconciler in reconcilers:
            for number in range(self.PER_KIND):
                self._owner.start(self._work(reconciler, context), f"{reconciler.kind.kind} worker {number}")

    async def passed(self) -> None:
        """Returns when every object that waits now has been reconciled."""
        await asyncio.gather(*(queue.passed() for queue in self._queues.values()))

    def any_fails(self, kinds: Iterable[Kind]) -> bool:
        """Whether there are objects of these kinds that could not be reconciled and will be retried."""
        return any(queue.fails for queue in self._queues_of(kinds))

    async def recovered(self, kinds: Iterable[Kind]) -> None:
        """Returns when there are no such objects, or were none of each kind at some time since the call."""
        for queue in self._queues_of(kinds):
            await queue.recovered()

    def _queues_of(self, kinds: Iterable[Kind]) -> list[WorkQueue[Key]]:
        return [self._queues[kind.queue] for kind in kinds if kind.queue in self._queues]

    async def failed(self) -> NoReturn:
        """Waits until a worker fails, and raises its error."""
        await self._owner.failed()

    async def close(self) -> None:
        """Cancels the workers; objects that are not reconciled yet will be at the next start."""
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
            except Exception as error:  # of any kind: the object is retried, and the others must not wait for it
                failed = True
                self._log_failure(reconciler.kind, key, error)
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

    def _log_failure(self, kind: Kind, key: Key, error: Exception) -> None:
        if isinstance(error, Conflict):
            # Another client wrote in between; the watch brings the new state, and the key is retried.
            log.debug(
                "the object has changed since it was read", kind=kind.kind, namespace=key.namespace, name=key.name
            )
            return
        log.warning(
            "reconciling failed; retrying",
            kind=kind.kind,
            namespace=key.namespace,
            name=key.name,
            error=describe(error),
        )
