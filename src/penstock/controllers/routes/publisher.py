"""Publishes the snapshot of routes: the records that reconcilers claim are written to `penstock.routes`.

A reconciler claims the records of its object; the publisher compares them with what it has published, gathers changes
for a moment, and writes only the changed records and one `Version`. It reads the topic back at start, so a restart
writes nothing. A new route gets its `start` here: the ends of `penstock.events` when it is first published, or the
first of the past events that it asks for. Where only the history's table has those, the route begins with new events,
and another one, claimed beside it, delivers the past events (`past.py`). A route whose filter changes keeps its former
filter, up to the ends of `penstock.events` at that time: older events may have to be matched again.

A record that is too large for Kafka is left out until another is claimed in its place: what one user writes into an
object must not keep the routes of all others from being published.

A failed write may have been stored all the same, and readers may have applied it. So every attempt has a version number
of its own, and the next attempt overwrites everything that the failed one may have left in the topic.

A record that cannot be read is written again as soon as it is detected. If that is only at the next start, the route's
start is lost, because only the topic had it. Beginning at the end of the events could skip some, so such a route begins
with the oldest event that is retained. Its cursors prevent repeated deliveries.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import partial

import msgspec
import structlog

from penstock.contract.names import Location, NameTable
from penstock.contract.routes import (
    VERSION_KEY,
    FormerMatch,
    Record,
    Replay,
    Route,
    ServiceName,
    Target,
    Version,
    encode,
    key_of,
    past_uid,
)
from penstock.controllers.tracker import Observer
from penstock.history.reader.table_events import FirstKept
from penstock.kafka.routes import NotTaken, PublisherSuperseded, RoutesTopic, StoredRoutes
from penstock.kafka.topic_ends import Retained
from penstock.observability.logs import describe
from penstock.runtime.lifecycle import first
from penstock.runtime.tasks import TaskScope

log = structlog.get_logger()

KeptSince = Callable[[float], Mapping[int, FirstKept]]
"""Where each partition of the history's table begins, for a Unix time; empty where it cannot be read."""

GATHER_SECONDS = 0.05
RETRY_SECONDS = 1.0
FORMER_KEPT, FORMER_BYTES = 8, 64 * 1024
"""How many former filters of a route are kept with it, and how many bytes they may take together."""


class Publisher:
    """The claims of all reconcilers, and which of them are published."""

    def __init__(self, topic: RoutesTopic, enqueue: Callable[[Observer], None], kept: KeptSince | None = None) -> None:
        """`enqueue` is called with the owner of a record that had another owner before, or that is left out."""
        self.version = 0
        """The newest published version."""
        self._topic, self._enqueue, self._kept = topic, enqueue, kept
        self._listeners: list[Callable[[int], None]] = []
        self._published: dict[str, Record] = {}
        self._changed_at: dict[str, int] = {}
        self._restored: set[str] = set()
        self._desired: dict[str, Record] = {}
        self._owner: dict[str, Observer] = {}
        self._others: dict[str, dict[Observer, Record]] = defaultdict(dict)
        """By key, the claims of others than its owner; the first of them becomes the next owner."""
        self._contested: dict[Observer, frozenset[str]] = {}
        """The keys that each claims and another one owns."""
        self._keys: dict[Observer, set[str]] = defaultdict(set)
        self._dirty: set[str] = set()
        self._left_out: dict[str, tuple[Record, int]] = {}
        """By key, a claim that is too large for Kafka, and its size."""
        self._newest_number = 0
        """The highest version number that an attempt to publish has used."""
        self._unconfirmed: set[str] = set()
        """Keys that a failed attempt may have changed in the topic, or whose record there cannot be read."""
        self._unreadable: set[str] = set()
        """Keys whose record was found to be unreadable and has not been replaced since."""
        self._found_meanwhile: set[str] = set()
        """Keys found unreadable since the newest attempt began: its write may precede the unreadable record."""
        self._routes_missing = False
        """Whether any claimed route may have been published before: records of some published routes are lost."""
        self._start_unknown: set[str] = set()
        """Keys of routes that may have been published before, with a start that is lost."""
        self._shortfalls: dict[str, str] = {}
        """By key, which of the past events that a route asked for are no longer kept."""
        self._expected: dict[Observer, frozenset[str]] = {}
        self._all_claimed = False
        self._incomplete = True
        self._names: NameTable | None = None
        self._work = asyncio.Event()

    def listen(self, listener: Callable[[int], None]) -> None:
        """Calls the listener with each version once it is published."""
        self._listeners.append(listener)

    async def look(self) -> StoredRoutes:
        """The published routes, without becoming their publisher."""
        return await asyncio.to_thread(self._topic.look)

    async def restore(self) -> StoredRoutes:
        """Becomes the publisher of the published routes, and returns them."""
        stored = await asyncio.to_thread(self._topic.read)
        self._published, self.version = stored.records, stored.version
        self._newest_number = stored.version
        if VERSION_KEY in stored.unreadable:
            # The last version number is lost: continue above every number that can have been used.
            self._newest_number = max(stored.version, int(time.time() * 1000))
        self._unreadable = set(stored.unreadable - {VERSION_KEY})
        self._start_unknown = self._unreadable - stored.records.keys()
        self._routes_missing = stored.routes_missing
        # A topic whose last record is not a Version was left in the middle of a change.
        self._incomplete = not stored.complete
        self._changed_at = dict.fromkeys(stored.records, stored.version)
        self._restored = set(stored.records)
        return stored

    def poll(self) -> None:
        """Serves the Kafka client; to be called regularly while nothing is published."""
        self._topic.look_after()

    def claim(self, owner: Observer, records: Iterable[Record], expected: Iterable[str] = ()) -> Mapping[str, Observer]:
        """Replaces the owner's claims by these records. Records with keys in `expected` may follow later.

        A record belongs to its first owner until that withdraws it. Returns the owners of keys that others own, by key.
        """
        asked = {key_of(record): record for record in records}
        taken = {key: holder for key in asked if (holder := self._owner.get(key, owner)) != owner}
        for key in self._contested.pop(owner, ()):
            self._others[key].pop(owner, None)
            if not self._others[key]:
                del self._others[key]
        for key in taken:
            self._others[key][owner] = asked.pop(key)
        if taken:
            self._contested[owner] = frozenset(taken)
        for key in tuple(self._keys[owner] - asked.keys()):
            self._withdraw(owner, key)
        for key, record in asked.items():
            self._take(owner, key, record)
        if not self._keys[owner]:
            del self._keys[owner]
        self._expect(owner, frozenset(expected))
        return taken

    def _take(self, owner: Observer, key: str, record: Record) -> None:
        self._owner[key] = owner
        self._keys[owner].add(key)
        started = self._with_start(record)
        if self._desired.get(key) != started:
            self._desired[key] = started
            self._names = None
            if self._published.get(key) != started or key in self._dirty:
                self._mark(key)

    def _withdraw(self, owner: Observer, key: str) -> None:
        self._keys[owner].discard(key)
        others = self._others.get(key)
        if not others:
            del self._owner[key], self._desired[key]
            self._names = None
            self._mark(key)
            return
        following = next(iter(others))
        self._take(following, key, others.pop(following))
        if not others:
            del self._others[key]
        self._contested[following] -= {key}
        self._enqueue(following)

    def _expect(self, owner: Observer, keys: frozenset[str]) -> None:
        unexpected = (self._expected.pop(owner, frozenset()) - keys) & self._unreadable
        if keys:
            self._expected[owner] = keys
        # Not `unexpected - self._desired.keys()`: that would iterate over all records, with every claim.
        self._write_again({key for key in unexpected if key not in self._desired})

    def held(self, key: str) -> Record | None:
        """The record as last claimed, or else as restored."""
        return self._desired.get(key) or self._published.get(key)

    def locate(self, url: str) -> Location:
        """The location of the URL, by the names as last claimed. Raises NothingThere."""
        if self._names is None:
            self._names = NameTable(record for record in self._desired.values() if isinstance(record, ServiceName))
        return self._names.locate(url)

    def version_of(self, key: str) -> int | None:
        """The version in which the record last changed; None while a change waits to be published."""
        return None if self._waits(key) else self._changed_at.get(key)

    def is_as_restored(self, key: str) -> bool:
        """Whether the record has been the same since before this process."""
        return key in self._restored and not self._waits(key)

    def owners_between(self, after: int, until: int) -> Iterator[Observer]:
        """The owners of records that last changed in the versions after `after`, until `until`."""
        if until <= after:  # as for nearly every acknowledgement: do not iterate over thousands of records
            return iter(())
        return iter([self._owner[k] for k, v in self._changed_at.items() if after < v <= until and k in self._owner])

    def owner_of(self, key: str) -> Observer | None:
        """Who claims the record."""
        return self._owner.get(key)

    def left_out(self, key: str) -> str | None:
        """Why the record is not published as it is claimed; None where no reason is known."""
        record, size = self._left_out.get(key, (None, 0))
        if record is None or record != self._desired.get(key):
            return None
        return f"Its record has {size} bytes, which is more than Kafka takes: make the object smaller."

    def take_shortfall(self, key: str) -> str | None:
        """Which of the past events that a route asked for are no longer kept; returned once."""
        return self._shortfalls.pop(key, None)

    def drop_unclaimed(self) -> None:
        """Every object has been reconciled: removes the records that are neither claimed nor expected."""
        self._all_claimed = True
        for key in self._published.keys() - self._desired.keys():
            self._mark(key)
        self._replace_unreadable()
        if self._routes_missing:
            self._start_unknown |= (self._all_expected() | self._desired.keys()) - self._published.keys()
            self._routes_missing = False

    def found_unreadable(self, key: str) -> None:
        """The topic has a record under this key that cannot be read."""
        self._found_meanwhile.add(key)
        if key == VERSION_KEY:
            self._incomplete = True
            self._work.set()
            return
        self._unreadable.add(key)
        self._replace_unreadable()

    def _replace_unreadable(self) -> None:
        """Writes the claimed ones again, and deletes those that will not be claimed."""
        ended = self._unreadable - self._all_expected() if self._all_claimed else frozenset[str]()
        self._write_again((self._unreadable & self._desired.keys()) | ended)

    def _all_expected(self) -> frozenset[str]:
        return frozenset[str]().union(*self._expected.values())

    async def run(self) -> None:
        """Publishes until cancelled. Start it after the first pass of the reconcilers."""
        owner = TaskScope()
        watch = self._topic.watch_unreadable(partial(owner.hand_over, self.found_unreadable), owner.fail)
        try:
            await first(self._publish_forever(), owner.failed())
        finally:
            await asyncio.to_thread(watch.stop)

    async def _publish_forever(self) -> None:
        self._replace_unreadable()
        if self._incomplete:
            self._work.set()
        while True:
            await self._work.wait()
            await asyncio.sleep(GATHER_SECONDS)
            self._work.clear()
            try:
                await self._publish()
            except PublisherSuperseded:
                raise
            except NotTaken as error:
                self._leave_out(error)
                self._work.set()
            except Exception as error:  # of the Kafka client or a thread: claims are kept, and published later
                log.error("the routes could not be published; trying again", error=describe(error))
                await asyncio.sleep(RETRY_SECONDS)
                self._work.set()

    async def _publish(self) -> None:
        changes = self._changes()
        if not changes and not self._incomplete:
            self._dirty.clear()
            return
        await self._complete(changes)
        version = self._next_version(changes)
        self._unconfirmed.update(changes)
        self._incomplete = True
        self._found_meanwhile.clear()
        encoded = [(key, None if record is None else encode(record)) for key, record in changes.items()]
        await asyncio.to_thread(self._topic.write, encoded, encode(version))
        self._incomplete = False
        self._unconfirmed -= changes.keys()
        self.version = version.version
        for key, record in changes.items():
            self._settle(key, record, version.version)
        self._dirty = {key for key in self._dirty if self._desired.get(key) != self._published.get(key)}
        for key in tuple(self._found_meanwhile):
            self.found_unreadable(key)
        for listener in self._listeners:
            listener(version.version)
        log.info("routes published", version=version.version, changed=len(changes))

    def _leave_out(self, error: NotTaken) -> None:
        log.error("a record of the routes is left out: it is too large", key=error.key, size=error.size)
        if (record := self._desired.get(error.key)) is None:
            return
        self._left_out[error.key] = record, error.size
        if (owner := self._owner.get(error.key)) is not None:
            self._enqueue(owner)

    def _changes(self) -> dict[str, Record | None]:
        """What to write: claims that differ from what is published, and keys whose record in the topic is uncertain."""
        return {
            key: self._desired.get(key)
            for key in sorted(self._dirty | self._unconfirmed)
            if key in self._unconfirmed or self._desired.get(key) != self._published.get(key)
            if not self.left_out(key)
        }

    async def _complete(self, changes: dict[str, Record | None]) -> None:
        """Adds what depends on the present ends of the events: the start of new routes, former filters of others."""
        routes = [(key, record) for key, record in changes.items() if isinstance(record, Route)]
        fresh = [route for key, route in routes if not route.start and key not in self._published]
        changed = [
            (key, route, before)
            for key, route in routes
            if isinstance(before := self._published.get(key), Route) and _matches_otherwise(before, route)
        ]
        if not (fresh or changed):
            return
        retained = await asyncio.to_thread(self._topic.retained_events)
        for key, route, before in changed:
            former = _former(before, tuple(kept.end for kept in retained))
            changes[key] = msgspec.structs.replace(route, former=former)
            if isinstance(current := self._desired.get(key), Route):
                self._desired[key] = msgspec.structs.replace(current, former=former)
        await self._give_starts(fresh, changes, retained)

    async def _give_starts(
        self, fresh: Sequence[Route], changes: dict[str, Record | None], retained: Sequence[Retained]
    ) -> None:
        for route in sorted(fresh, key=_is_past):  # a route for past events ends where its own route starts: own first
            key = key_of(route)
            if route.replay is None:
                has_past = f"route/{past_uid(route.uid)}" in changes
                start = await self._start_of(key, route.asked_from, retained, has_past=has_past)
                started = msgspec.structs.replace(route, start=start)
            elif route.replay.past_of is None:
                started = await self._window_of(key, route, route.replay, retained)
            else:
                own = f"route/{route.replay.past_of}"
                started = await self._past_of(own, changes.get(own) or self._published.get(own), route, retained)
            changes[key] = started
            current = self._desired.get(key)
            if isinstance(current, Route):
                # The claim may have changed during the await; it gets the same start.
                self._desired[key] = _as_started(current, started)

    async def _window_of(self, key: str, route: Route, replay: Replay, retained: Sequence[Retained]) -> Route:
        """A Replay with its start and end. For dropped and dead-lettered events, `since` and `until` are about the time
        of the failure, not of the event, so all retained events are searched."""
        start, end = tuple(kept.first for kept in retained), tuple(kept.end for kept in retained)
        if replay.given_up_by is None:
            start = await self._begin_of(key, replay.since, retained, self._kept)
            if replay.until is not None:
                end = await asyncio.to_thread(self._topic.events_since, replay.until)
        return _within(route, start, end)

    async def _past_of(self, own_key: str, own: Record | None, past: Route, retained: Sequence[Retained]) -> Route:
        """The route for past events: from the first one that is asked for to where the other route begins."""
        end = own.start if isinstance(own, Route) else ()
        since = 0.0 if past.replay is None else past.replay.since
        begin = await self._begin_of(own_key, since, retained, self._kept)
        return _within(past, tuple(map(min, begin, end)), end)

    async def _start_of(
        self, key: str, since: float | None, retained: Sequence[Retained], *, has_past: bool
    ) -> tuple[int, ...]:
        if not self._routes_missing and key not in self._start_unknown:
            if since is None:
                return tuple(kept.end for kept in retained)
            begin = await self._begin_of(key, since, retained, self._kept if has_past else None)
            kept_by_kafka = all(first >= kept.first for first, kept in zip(begin, retained, strict=False))
            # Otherwise the other route delivers all past events, so that they stay in order.
            return begin if kept_by_kafka else tuple(kept.end for kept in retained)
        log.warning("the start of a route is lost; it begins with the oldest event that is kept", key=key)
        return tuple(kept.first for kept in retained)

    async def _begin_of(
        self, key: str, since: float, retained: Sequence[Retained], table: KeptSince | None
    ) -> tuple[int, ...]:
        """The first events since then: in Kafka, or before that in the table. Records which ones are missing."""
        found = await asyncio.to_thread(self._topic.events_since, since) if since else ()
        begin, shortfall = start_in_the_past(found, retained)
        if table is not None and any(one == kept.first > 0 for one, kept in zip(begin, retained, strict=False)):
            begin, shortfall = further_back(begin, await asyncio.to_thread(table, since), since)
        if shortfall:
            self._shortfalls[key] = shortfall
        return begin

    def _next_version(self, changes: dict[str, Record | None]) -> Version:
        self._newest_number += 1
        after = {**self._published, **changes}
        counts = {kind: sum(isinstance(record, kind) for record in after.values()) for kind in _KINDS}
        return Version(self._newest_number, *(counts[kind] for kind in _KINDS))

    def _settle(self, key: str, record: Record | None, version: int) -> None:
        self._restored.discard(key)
        self._left_out.pop(key, None)
        self._unreadable.discard(key)
        self._start_unknown.discard(key)
        if record is None:
            self._published.pop(key, None)
            self._changed_at.pop(key, None)
        else:
            self._published[key] = record
            self._changed_at[key] = version

    def _with_start(self, record: Record) -> Record:
        if not isinstance(record, Route):
            return record
        held = self.held(key_of(record))
        if not isinstance(held, Route):
            return record
        return msgspec.structs.replace(_as_started(record, held), asked_from=held.asked_from)

    def _waits(self, key: str) -> bool:
        return key in self._dirty or key in self._unconfirmed

    def _write_again(self, keys: Set[str]) -> None:
        """Has the records under these keys written again, whatever the topic has."""
        if keys:
            self._unconfirmed.update(keys)
            self._work.set()

    def _mark(self, key: str) -> None:
        self._dirty.add(key)
        self._work.set()


def _is_past(route: Route) -> bool:
    return route.replay is not None and route.replay.past_of is not None


def _within(route: Route, start: tuple[int, ...], end: tuple[int, ...]) -> Route:
    """The route with its start and end."""
    replay = None if route.replay is None else msgspec.structs.replace(route.replay, end=end)
    return msgspec.structs.replace(route, start=start, replay=replay)


def _matches_otherwise(before: Route, route: Route) -> bool:
    return route.replay is None and before.match != route.match


def _former(before: Route, ends: tuple[int, ...]) -> tuple[FormerMatch, ...]:
    """The former filters of the route, the newest ones up to the limits."""
    former = (*before.former, FormerMatch(*before.match, until=ends))[-FORMER_KEPT:]
    while former and len(msgspec.json.encode(former)) > FORMER_BYTES:
        former = former[1:]
    return former


def _as_started(route: Route, before: Route) -> Route:
    """The route with the start, the former filters, and the end if it has one, that it was published with."""
    replay = route.replay
    if replay is not None and before.replay is not None:
        replay = msgspec.structs.replace(replay, end=before.replay.end)
    return msgspec.structs.replace(route, start=before.start, replay=replay, former=before.former)


def start_in_the_past(found: Sequence[int], retained: Sequence[Retained]) -> tuple[tuple[int, ...], str]:
    """Where a route begins that asks for past events, and which of them are missing; empty where none is.

    `found` are the offsets of the first ones; empty: it asks for all that are kept, so none is missing.
    """
    if not found:
        return tuple(kept.first for kept in retained), ""
    start = tuple(max(wanted, kept.first) for wanted, kept in zip(found, retained, strict=False))
    cut = [n for n, (begin, kept) in enumerate(zip(start, retained, strict=False)) if begin == kept.first > 0]
    return start, _missing(cut)


def further_back(start: Sequence[int], kept: Mapping[int, FirstKept], since: float) -> tuple[tuple[int, ...], str]:
    """The same start, moved back to the first events in the history's table, and which events it does not have."""
    moved = tuple(min(begin, kept[number].since) if number in kept else begin for number, begin in enumerate(start))
    cut = [n for n, begin in enumerate(moved) if since and begin and (n not in kept or kept[n].since == kept[n].first)]
    return moved, _missing(cut)


def _missing(cut: Sequence[int]) -> str:
    """The message about partitions that begin with the oldest event that is kept; empty where there are none."""
    named = ", ".join(map(str, cut))
    message = f"older events may be missing: in partitions {named} it begins with the oldest event that is kept"
    return message if cut else ""


_KINDS: tuple[type[Record], ...] = (Target, Route, ServiceName)
