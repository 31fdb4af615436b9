"""EventTypes: their controller, which checks that what they refer to exists, and the two that create them.

`EventTypeMaker` creates them for the types of events that the ingress reports, where `eventtype-auto-create` is
enabled. `DescribedEvents` keeps those of what a source sends. Nothing depends on EventTypes, so they never delay
anything.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping
from typing import Any

import structlog

from penstock.contract.reports import SeenType
from penstock.contract.routes import Target
from penstock.controllers.reconciler import ReconcilerContext
from penstock.controllers.reconcilers.parts import PartFailed, Parts
from penstock.controllers.routes.publisher import Publisher
from penstock.controllers.tracker import Observer, Tracker
from penstock.kube.client import AsyncClient
from penstock.kube.errors import Conflict, KubeError
from penstock.kube.kinds import BROKER, EVENT_TYPE, IN_MEMORY_CHANNEL, Key, Kind, Obj, key_of
from penstock.observability.logs import describe
from penstock.resources.eventtype import (
    EventTypeObservation,
    SeenEvent,
    SentTo,
    event_type_of,
    reference_of,
    status_of,
)
from penstock.resources.metadata import ObjectIdentity
from penstock.resources.sources import descriptions, event_types_of, name_of

MOST_WAITING = 1000
OLDEST_SECONDS = 600.0
"""Older reports are ignored: types that are still seen are reported again."""
MOST_OF_A_TARGET = 1000
"""EventTypes created per target; a producer with ever new types must not fill the API."""

_KINDS: Mapping[str, Kind] = {"Broker": BROKER, "Channel": IN_MEMORY_CHANNEL}

log = structlog.get_logger()


class EventTypeReconciler:
    """EventTypes, written by users or created here."""

    kind = EVENT_TYPE

    def __init__(self, context: ReconcilerContext) -> None:
        self._context = context

    async def reconcile(self, key: Key, obj: Obj | None) -> None:
        """See `Reconciler`."""
        if obj is not None:
            seen = self._observe((EVENT_TYPE.kind, key), obj)
            await self._context.write_status(EVENT_TYPE, obj, status_of(obj, seen, self._context.now()))

    def _observe(self, me: Observer, obj: Obj) -> EventTypeObservation:
        reference = reference_of(obj)
        if reference is None:
            return EventTypeObservation(refers=False)
        kind = Kind(reference.api_version, reference.kind)
        found = self._context.tracker.look(me, kind, Key(reference.namespace, reference.name))
        unserved = self._context.tracker.informer(kind).unserved
        return EventTypeObservation(refers=True, found=found is not None, unreadable=unserved)


class EventTypeMaker:
    """Creates missing EventTypes for reported types. One that cannot be created now is, when it is reported again."""

    def __init__(self, api: AsyncClient, tracker: Tracker, publisher: Publisher) -> None:
        self._api, self._tracker, self._publisher = api, tracker, publisher
        self._waiting: asyncio.Queue[SeenType] = asyncio.Queue(MOST_WAITING)
        self._made: dict[str, set[Key]] = {}

    def take(self, seen: SeenType) -> None:
        """Queues a report; when too many wait it is dropped, and reported again later."""
        if time.time() - seen.at < OLDEST_SECONDS and not self._waiting.full():
            self._waiting.put_nowait(seen)

    async def run(self) -> None:
        """Creates EventTypes until cancelled."""
        while True:
            seen = await self._waiting.get()
            try:
                await self._make(seen)
            except KubeError as error:
                log.warning("an EventType could not be created", type=seen.type, error=describe(error))

    async def _make(self, seen: SeenType) -> None:
        target = self._publisher.held(f"target/{seen.target}")
        if not isinstance(target, Target) or not target.tells_types:
            self._made.pop(seen.target, None)
            return
        informer = self._tracker.informer(EVENT_TYPE)
        await informer.synced.wait()
        wanted = event_type_of(_sent_to(target), SeenEvent(seen.type, seen.source, seen.schema, seen.specversion))
        made = self._made.setdefault(target.uid, set())
        if informer.get(key_of(wanted)) is not None or (len(made) >= MOST_OF_A_TARGET and key_of(wanted) not in made):
            return
        made.add(key_of(wanted))
        with contextlib.suppress(Conflict):
            await self._api.create(EVENT_TYPE, wanted)


def _sent_to(target: Target) -> SentTo:
    kind = _KINDS[target.kind]
    return SentTo(kind.api_version, kind.kind, ObjectIdentity(target.namespace, target.name, target.uid))


class DescribedEvents:
    """The EventTypes of what all sources of one kind send."""

    def __init__(self, context: ReconcilerContext, kind: str) -> None:
        self._context, self._kind = context, kind

    async def ensure(self, me: Observer, obj: Obj, status: dict[str, Any], source: str) -> None:
        """Creates or changes the EventTypes that the status asks for, and deletes others of this source. If the server
        rejects them, the source sends all the same."""
        parts, by_type = Parts(self._context, me, obj), descriptions(self._kind)
        wanted = event_types_of(obj, status, by_type)
        unwanted = {name_of(obj, kind, source) for kind in by_type} - {one["metadata"]["name"] for one in wanted}
        try:
            await parts.remove((EVENT_TYPE, Key(me[1].namespace, name)) for name in sorted(unwanted))
            for one in wanted:
                await parts.ensure(one, fixed="reference")
        except PartFailed as error:
            self._context.recorder.warning(obj, "EventTypeFailed", str(error))
