"""Publishes the snapshot of routes: what the reconcilers claim becomes records of `penstock.routes`.

A reconciler claims the records of its object; the publisher compares them with what it has published, gathers changes
for a moment, and writes only the changed records and one `Version`. It reads the topic back at start, so a restart
changes nothing in it. A new route gets its `start` here: the ends of `penstock.events` when it is first published, or
where the events begin that it asks for. Where only the history's table has those, the route begins with new events, and
another one, claimed beside it, delivers what came before (`past.py`). A route that changes what it matches keeps what
it matched before, up to the ends of `penstock.events` then: older events may have to be read again.

A record that Kafka does not take, because it is too large, is left out until another is claimed in its place: what one
user writes into an object must not keep the routes of all others from being published.

A write that failed may have been stored all the same, and readers may act by it. So every attempt has a version number
of its own, and the next attempt writes again whatever the failed one may have left in the topic.

A record that cannot be read is written again as soon as it is seen. Where that is only at the next start, what the
topic alone knew is gone: the route's start. The end of the events would be a loss to a route that is behind it, so such
a route begins with the oldest event that is retained. Its cursors know what it has had already.
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
"""Where each partition of the history's table begins, for a Unix time; nothing where it cannot be read."""

GATHER_SECONDS = 0.05
RETRY_SECONDS = 1.0
FORMER_KEPT, FORMER_BYTES = 8, 64 * 1024
"""How many changes of what a route matches are kept with it, and how many bytes they may take together."""


class Publisher:
    """Claims of all reconcilers, and what of them is published."""

    def __init__(self, topic: RoutesTopic, kept: KeptSince | None = None) -> None:
        self.version = 0
        """The newest published version."""
        self.announce: Callable[[int], None] = lambda _version: None
        """Told each version once it is published."""
        self._topic, self._kept = topic, kept
        self._published: dict[str, Record] = {}
        self._changed_at: dict[str, int] = {}
        self._restored: set[str] = set()
        self._desired: dict[str, Record] = {}
        self._owner: dict[str, Observer] = {}
        self._others: dict[str, dict[Observer, Record]] = defaultdict(dict)
        """By key, what others claim that its owner has; the first of them follows the owner."""
        self._contested: dict[Observer, frozenset[str]] = {}
        """What each claims in vain."""
        self.look_again: Callable[[Observer], None] = lambda _: None
        """Called with the owner of a record that had another owner before, or that is left out."""
        self._keys: dict[Observer, set[str]] = defaultdict(set)
        self._dirty: set[str] = set()
        self._left_out: dict[str, tuple[Record, int]] = {}
        """By key, a claim that Kafka does not take, and its size."""
        self._newest_number = 0
        """The highest version number that an attempt to publish has used."""
        self._unconfirmed: set[str] = set()
        """Keys that a failed attempt may have changed in the topic, or under which it holds what cannot be read."""
        self._unreadable: set[str] = set()
        """Keys whose record was found to be unreadable and has not been replaced since."""
        self._found_meanwhile: set[str] = set()
        """Keys that were found so since the newest attempt began: it may have come before what cannot be read."""
        self._routes_missing = False
        """Whether any route that is claimed may have been published before: some are, and nothing of them is left."""
        self._start_unknown: set[str] = set()
        """Keys of routes that may have been published before, with a start that is not known any more."""
        self._shortfalls: dict[str, str] = {}
        """By key, what is no longer kept of the past that a route asked for."""
        self._expected: dict[Observer, frozenset[str]] = {}
        self._all_claimed = False
        self._incomplete = True
        self._names: NameTable | None = None
        self._work = asyncio.Event()

    async def look(self) -> StoredRoutes:
        """What is published already, by whomever, without taking it up."""
        return await asyncio.to_thread(self._topic.look)

    async def restore(self) -> StoredRoutes:
        """Takes up what is published already, and returns it."""
        stored = await asyncio.to_thread(self._topic.read)
        self._published, self.version = stored.records, stored.version
        self._newest_number = stored.version
        if VERSION_KEY in stored.unreadable:
            # What was used and acknowledged last is not known: go on beyond all that can have been.
            self._newest_number = max(stored.version, int(time.time() * 1000))
        self._unreadable = set(stored.unreadable - {VERSION_KEY})
        self._start_unknown = self._unreadable - stored.records.keys()
        self._routes_missing = stored.routes_missing
        # A topic whose last record is not a Version was left in the middle of a change.
        self._incomplete = not stored.complete
        self._changed_at = dict.fromkeys(stored.records, stored.version)
        self._restored = set(stored.records)
        return stored

    def look_after(self) -> None:
        """To be called now and then while nothing is published."""
        self._topic.look_after()

    def claim(self, owner: Observer, records: Iterable[Record], expected: Iterable[str] = ()) -> Mapping[str, Observer]:
        """These records, and no others, are the owner's. One with a key that is `expected` may follow.

        A record stays its first owner's until that gives it up. Returns, by key, who owns what is claimed in vain.
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
            self._give_up(owner, key)
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

    def _give_up(self, owner: Observer, key: str) -> None:
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
        self.look_again(following)

    def _expect(self, owner: Observer, keys: frozenset[str]) -> None:
        given_up = (self._expected.pop(owner, frozenset()) - keys) & self._unreadable
        if keys:
            self._expected[owner] = keys
        # A set minus the keys of a dictionary would go through all of them, with every claim.
        self._write_again({key for key in given_up if key not in self._desired})

    def held(self, key: str) -> Record | None:
        """The record as last claimed, or else as restored."""
        return self._desired.get(key) or self._published.get(key)

    def locate(self, url: str) -> Location:
        """Where the URL leads, by the names as last claimed. Raises NothingThere."""
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
        """Whose records last changed in the versions from `after` (not included) until `until`."""
        if until <= after:  # as nearly always when an acknowledgement comes: thousands of records need no look
            return iter(())
        return iter([self._owner[k] for k, v in self._changed_at.items() if after < v <= until and k in self._owner])

    def owner_of(self, key: str) -> Observer | None:
        """Who claims the record."""
        return self._owner.get(key)

    def left_out(self, key: str) -> str | None:
        """Why the record is not published as it is claimed; None where nothing is known to be in its way."""
        record, size = self._left_out.get(key, (None, 0))
        if record is None or record != self._desired.get(key):
            return None
        return f"Its record has {size} bytes, which is more than Kafka takes: make the object smaller."

    def take_shortfall(self, key: str) -> str | None:
        """What is no longer kept of the past that a route asked for; told once."""
        return self._shortfalls.pop(key, None)

    def drop_unclaimed(self) -> None:
        """Every object has been looked at: what nobody has claimed, and nobody is expected to, is gone."""
        self._all_claimed = True
        for key in self._published.keys() - self._desired.keys():
            self._mark(key)
        self._replace_unreadable()
        if self._routes_missing:
            self._start_unknown |= (self._all_expected() | self._desired.keys()) - self._published.keys()
            self._routes_missing = False

    def found_unreadable(self, key: str) -> None:
        """The topic holds a record under this key that cannot be read."""
        self._found_meanwhile.add(key)
        if key == VERSION_KEY:
            self._incomplete = True
            self._work.set()
            return
        self._unreadable.add(key)
        self._replace_unreadable()

    def _replace_unreadable(self) -> None:
        """Writes again what is claimed, and deletes what will not be."""
        ended = self._unreadable - self._all_expected() if self._all_claimed else frozenset[str]()
        self._write_again((self._unreadable & self._desired.keys()) | ended)

    def _all_expected(self) -> frozenset[str]:
        return frozenset[str]().union(*self._expected.values())

    async def run(self) -> None:
        """Publishes until cancelled. To be started when every object has been looked at, or tried to be, once."""
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
            except NotTaken as refusal:
                self._leave_out(refusal)
                self._work.set()
            except Exception as error:  # of Kafka, mostly; the routes stay as they are and are published later
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
        self.announce(version.version)
        log.info("routes published", version=version.version, changed=len(changes))

    def _leave_out(self, refusal: NotTaken) -> None:
        log.error("a record of the routes is left out: it is too large", key=refusal.key, size=refusal.size)
        if (record := self._desired.get(refusal.key)) is None:
            return
        self._left_out[refusal.key] = record, refusal.size
        if (owner := self._owner.get(refusal.key)) is not None:
            self.look_again(owner)

    def _changes(self) -> dict[str, Record | None]:
        """What to write: where a claim differs from what is published, and where the topic may hold something else."""
        return {
            key: self._desired.get(key)
            for key in sorted(self._dirty | self._unconfirmed)
            if key in self._unconfirmed or self._desired.get(key) != self._published.get(key)
            if not self.left_out(key)
        }

    async def _complete(self, changes: dict[str, Record | None]) -> None:
        """Gives routes what depends on where the events are now: new ones their start, changed ones what they were."""
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
        for route in sorted(fresh, key=_is_past):  # a past ends where its route begins, so that it comes after it
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
                # The claim may have changed while the ends were asked for; it gets the same start.
                self._desired[key] = _as_started(current, started)

    async def _window_of(self, key: str, route: Route, replay: Replay, retained: Sequence[Retained]) -> Route:
        """A Replay with where it begins and ends. Events that a route gave up are found by when it did so."""
        start, end = tuple(kept.first for kept in retained), tuple(kept.end for kept in retained)
        if replay.given_up_by is None:
            start = await self._begin_of(key, replay.since, retained, self._kept)
            if replay.until is not None:
                end = await asyncio.to_thread(self._topic.events_since, replay.until)
        return _within(route, start, end)

    async def _past_of(self, own_key: str, own: Record | None, past: Route, retained: Sequence[Retained]) -> Route:
        """What delivers the past of a route: from where the events begin that it asks for to where the route begins."""
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
            # Otherwise all of its past comes from one hand, which keeps its order.
            return begin if kept_by_kafka else tuple(kept.end for kept in retained)
        log.warning("the start of a route cannot be read any more; it begins with the oldest event kept", key=key)
        return tuple(kept.first for kept in retained)

    async def _begin_of(
        self, key: str, since: float, retained: Sequence[Retained], table: KeptSince | None
    ) -> tuple[int, ...]:
        """Where the events begin that came since then: in Kafka, or before that in the table. Notes what is missing."""
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
        """Whatever the topic holds under these keys is to be replaced."""
        if keys:
            self._unconfirmed.update(keys)
            self._work.set()

    def _mark(self, key: str) -> None:
        self._dirty.add(key)
        self._work.set()


def _is_past(route: Route) -> bool:
    return route.replay is not None and route.replay.past_of is not None


def _within(route: Route, start: tuple[int, ...], end: tuple[int, ...]) -> Route:
    """The route with where it begins and ends."""
    replay = None if route.replay is None else msgspec.structs.replace(route.replay, end=end)
    return msgspec.structs.replace(route, start=start, replay=replay)


def _matches_otherwise(before: Route, route: Route) -> bool:
    return route.replay is None and before.match != route.match


def _former(before: Route, ends: tuple[int, ...]) -> tuple[FormerMatch, ...]:
    """What the route has matched until now, with the newest changes that there is room for."""
    former = (*before.former, FormerMatch(*before.match, until=ends))[-FORMER_KEPT:]
    while former and len(msgspec.json.encode(former)) > FORMER_BYTES:
        former = former[1:]
    return former


def _as_started(route: Route, before: Route) -> Route:
    """The route with the start, and the end if it has one, that it was published with, and what it was before."""
    replay = route.replay
    if replay is not None and before.replay is not None:
        replay = msgspec.structs.replace(replay, end=before.replay.end)
    return msgspec.structs.replace(route, start=before.start, replay=replay, former=before.former)


def start_in_the_past(found: Sequence[int], retained: Sequence[Retained]) -> tuple[tuple[int, ...], str]:
    """Where a route begins that asks for the past, and what is no longer there of it; empty where all is.

    `found` is where the events begin that it asks for; empty: it asks for all that are kept, so none can be missing.
    """
    if not found:
        return tuple(kept.first for kept in retained), ""
    start = tuple(max(wanted, kept.first) for wanted, kept in zip(found, retained, strict=False))
    cut = [n for n, (begin, kept) in enumerate(zip(start, retained, strict=False)) if begin == kept.first > 0]
    return start, _missing(cut)


def further_back(start: Sequence[int], kept: Mapping[int, FirstKept], since: float) -> tuple[tuple[int, ...], str]:
    """The same start, moved back to where the history's table has what is asked for, and what it does not have."""
    moved = tuple(min(begin, kept[number].since) if number in kept else begin for number, begin in enumerate(start))
    cut = [n for n, begin in enumerate(moved) if since and begin and (n not in kept or kept[n].since == kept[n].first)]
    return moved, _missing(cut)


def _missing(cut: Sequence[int]) -> str:
    """What is told of partitions that begin with what is left; nothing where there are none."""
    named = ", ".join(map(str, cut))
    told = f"older events may be missing: in partitions {named} it begins with the oldest event that is kept"
    return told if cut else ""


_KINDS: tuple[type[Record], ...] = (Target, Route, ServiceName)
