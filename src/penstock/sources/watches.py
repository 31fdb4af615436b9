"""Runs the ApiServerSources: a watch for each kind and namespace, and one queue of deliveries for each source.

A watch waits while its source's sink does not accept events. If it then is too old, the next list finds the changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import NoReturn, Protocol

import structlog

from penstock.events.event import CloudEvent
from penstock.kube import client
from penstock.kube.client import Listing
from penstock.kube.errors import Forbidden, KubeError, NotFound
from penstock.kube.kinds import Obj
from penstock.kube.list_watch import Changed, Interrupted, Listed, list_and_watch
from penstock.observability.logs import describe
from penstock.resources.apiserversource import Change
from penstock.runtime.tasks import TaskScope
from penstock.sources.deliveries import Letter, Send, SourceDeliveries
from penstock.sources.watch_plan import KnownObjects, WatchedObjects, WatchPlan, event_of

log = structlog.get_logger()


class ObjectApi(Protocol):
    """The API as the source's ServiceAccount sees it."""

    async def listing(self, user: str, watched: WatchedObjects) -> Listing:
        """The objects, and the version to watch from."""

    def changes(
        self, user: str, watched: WatchedObjects, version: str
    ) -> AbstractAsyncContextManager[AsyncIterator[client.Change]]:
        """Changes after `version`."""

    def plural(self, watched: WatchedObjects) -> str:
        """The name of the collection."""


@dataclass
class _Source:
    plan: WatchPlan
    deliveries: SourceDeliveries
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    tasks: dict[WatchedObjects, asyncio.Task[object]] = field(default_factory=dict)
    waits_for: set[WatchedObjects] = field(default_factory=set)
    """Watches without a list yet."""
    problems: dict[WatchedObjects, str] = field(default_factory=dict)


class WatchRunner:
    """All ApiServerSources of a process."""

    def __init__(self, api: ObjectApi, send: Send, changed: Callable[[str], None]) -> None:
        self._api, self._send, self._changed = api, send, changed
        self._sources: dict[str, _Source] = {}
        self._tasks = TaskScope()

    def put(self, plan: WatchPlan) -> None:
        """Adds or changes a source. Watches that stay the same continue without a gap."""
        source = self._sources.get(plan.uid)
        if source is not None and source.plan.source.user != plan.source.user:
            self.remove(plan.uid)
            source = None
        if source is None:
            source = _Source(plan, SourceDeliveries(self._send, lambda: self._changed(plan.uid)))
            self._sources[plan.uid] = source
        if source.plan != plan:
            source.plan = plan
            source.deliveries.hurry()
        self._watch_only(source, plan.watched())

    def _watch_only(self, source: _Source, wanted: tuple[WatchedObjects, ...]) -> None:
        for watched in [one for one in source.tasks if one not in wanted]:
            source.tasks.pop(watched).cancel()
            source.waits_for.discard(watched)
            source.problems.pop(watched, None)
        for watched in wanted:
            if watched not in source.tasks:
                source.waits_for.add(watched)
                name = f"{source.plan.source.identity.name} watches {watched.kind.kind}"
                source.tasks[watched] = self._tasks.start(self._follow(source, watched), name)

    def remove(self, uid: str) -> None:
        """Ends the watches of the source."""
        source = self._sources.pop(uid, None)
        if source is not None:
            for task in source.tasks.values():
                task.cancel()

    def watching(self, uid: str) -> bool:
        """Whether all of its watches have begun."""
        source = self._sources.get(uid)
        return source is not None and not source.waits_for

    def problem(self, uid: str) -> str | None:
        """Why something cannot be watched."""
        source = self._sources.get(uid)
        return None if source is None else next(iter(source.problems.values()), None)

    def trouble(self, uid: str) -> str | None:
        """Why the source waits for its sink; None where it does not."""
        source = self._sources.get(uid)
        return None if source is None else source.deliveries.trouble

    async def run(self) -> NoReturn:
        """Runs until cancelled."""
        try:
            await self._tasks.failed()
        finally:
            await self._tasks.close()

    async def _follow(self, source: _Source, watched: WatchedObjects) -> None:
        user, known = source.plan.source.user, KnownObjects(watched.has)
        get_list, open_watch = partial(self._api.listing, user, watched), partial(self._api.changes, user, watched)
        async for news in list_and_watch(get_list, open_watch):
            match news:
                case Listed(objects):
                    for change, obj in known.listed(objects):
                        await self._send_change(source, watched, change, obj)
                    self._seen(source, watched, None)
                case Changed(kind, obj):
                    if (found := known.changed(kind, obj)) is not None:
                        await self._send_change(source, watched, *found)
                case Interrupted(error):
                    self._interrupted(source, watched, error)

    def _interrupted(self, source: _Source, watched: WatchedObjects, error: KubeError) -> None:
        if isinstance(error, NotFound):
            # As in Knative, the other kinds are watched all the same; this one may be installed later.
            self._seen(source, watched, None)
        elif isinstance(error, Forbidden):
            self._seen(source, watched, str(error))
        log.warning(
            "a source cannot watch; retrying",
            source=source.plan.source.identity.name,
            namespace=source.plan.source.identity.namespace,
            kind=watched.kind.kind,
            error=describe(error),
        )

    async def _send_change(self, source: _Source, watched: WatchedObjects, change: Change, obj: Obj) -> None:
        plural = self._api.plural(watched)
        event = event_of(source.plan, change, obj, plural)
        if event is None:
            return

        def letter() -> Letter:
            namespace = source.plan.source.identity.namespace
            return source.plan.sink, _same_id(event_of(source.plan, change, obj, plural), event), namespace

        async with source.turn:
            await source.deliveries.deliver(letter, skip_refused=True)

    def _seen(self, source: _Source, watched: WatchedObjects, problem: str | None) -> None:
        """Sets the state of a watch; reports a change, so that the status is updated."""
        before = (watched in source.waits_for, source.problems.get(watched))
        if problem is None:
            source.waits_for.discard(watched)
            source.problems.pop(watched, None)
        else:
            source.problems[watched] = problem
        if before != (watched in source.waits_for, source.problems.get(watched)):
            self._changed(source.plan.uid)


def _same_id(now: CloudEvent | None, first: CloudEvent) -> CloudEvent:
    """The event by the present spec, with its first time; one that the spec no longer selects stays unchanged."""
    return first if now is None else now.with_attributes(time=first.attributes["time"])
