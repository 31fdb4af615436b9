"""One partition in which nobody stays dead: queries that were stopped write on, and so does a driver that was replaced.

The real generations decide; Kafka is two lists. A query writes a partition in order and that is all that is assumed of
it: when it writes, and whether it ends when it is told to, is left to chance, and so is the end of the driver, at any
call to Kafka. What is read from `penstock.matched` is what the real cursors of the dispatcher take.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import msgspec

from penstock.contract import generations as contract
from penstock.contract import records, topics
from penstock.contract.generations import LivePoint
from penstock.contract.reports import Served
from penstock.contract.routes import Route
from penstock.contract.snapshot import Snapshot
from penstock.dispatcher.cursors.cursor import Cursor
from penstock.dispatcher.cursors.partition import PartitionCursors, TailPosition
from penstock.dispatcher.matched_record import Matched
from penstock.kafka.fences import RouterSuperseded
from penstock.kafka.topic_ends import KafkaAway, Retained
from penstock.router.generations.fencing import Fencing
from penstock.router.generations.generations import Generation, GenerationFailed, Generations
from penstock.router.generations.markers import MarkerRound, MarkerWatch
from penstock.router.generations.positions import StartOffsets
from penstock.router.generations.served_routes import ServedRoutes
from penstock.router.matched_record import Marker, MatchedRecord
from penstock.router.plan.route_index import RouteTable
from penstock.router.plan.unplannable import Unplannable
from tests.unit.router.generations_double import Noted


class Crash(Exception):
    """The driver ends here."""


@dataclass
class Entry:
    """A record of `penstock.matched`."""

    origin: int
    generation: int
    routes: tuple[str, ...] = ()
    marker: Marker | None = None
    fence: bool = False
    follows: int = -1
    at: int = 0
    """When it was written: what is written again at the same place has another time."""


@dataclass(frozen=True)
class Reported:
    """What routers have noted."""

    epoch: int = 0
    points: dict[str, LivePoint] = field(default_factory=dict)
    notes: dict[str, Served] = field(default_factory=dict)


@dataclass(frozen=True)
class Flushed:
    """What the dispatcher has written down: its tail, and the next origin of each route."""

    tail: bytes
    cursors: dict[str, int]


@dataclass
class Rule:
    """What a route wanted at some time: from which moment on others were no longer to be used."""

    types: str
    acknowledged: int | None = None


@dataclass
class Query:
    """A query as Spark runs it: it writes in order, and may go on after it was stopped."""

    world: World
    number: int
    routes: dict[str, Route]
    position: int
    runs: bool = True
    """As the driver sees it."""
    writes: bool = True

    def alive(self) -> bool:
        return self.runs

    def reason(self) -> str:
        return "it was stopped"

    def stop(self) -> None:
        self.runs = False
        self.writes = self.writes and self.world.chance.random() < self.world.undead

    def step(self, events: int) -> None:
        """Routes some more events."""
        for origin in range(self.position, min(self.position + events, len(self.world.events))):
            event = self.world.events[origin]
            if isinstance(event, Marker):
                self.world.write(Entry(origin, self.number, marker=event))
            else:
                uids = [uid for uid, route in self.routes.items() if wants(route, event) and route.start[0] <= origin]
                if uids:
                    self.world.write(Entry(origin, self.number, tuple(uids)))
            self.position = origin + 1


def wants(route: Route, kind: str) -> bool:
    return kind in route.attributes["type"]


@dataclass
class World:
    """Everything that outlives a driver."""

    chance: random.Random
    undead: float = 0.5
    """How likely it is that what was stopped or replaced goes on."""
    fenced: bool = True
    """Whether fences are put up at all: without them the promises must break, or this proves nothing."""
    types: str = "abc"
    """Of events. With few of them, a filter is often what it was before."""
    events: list[str | Marker] = field(default_factory=list)
    matched: list[Entry] = field(default_factory=list)
    queries: list[Query] = field(default_factory=list)
    points: dict[str, LivePoint] = field(default_factory=dict)
    notes: dict[str, Served] = field(default_factory=dict)
    routes: dict[str, Route] = field(default_factory=dict)
    rules: dict[str, list[Rule]] = field(default_factory=dict)
    hidden: set[str] = field(default_factory=set)
    """Routes whose record cannot be read."""
    version: int = 0
    epoch: int = 0
    owner: object = None
    """The driver that took over last: Kafka lets it alone note anything."""
    delivered: set[tuple[str, int]] = field(default_factory=set)
    cursors: PartitionCursors = field(default_factory=lambda: PartitionCursors(0))
    reports: list[Reported] = field(default_factory=list)
    """What was noted, after each change of it."""
    flushed: list[Flushed] = field(default_factory=list)
    power_failed: bool = False
    clock: int = 0
    shut_out: int = 0
    """The highest fence that the dispatcher told of."""
    _readable: tuple[dict[str, Route], dict[str, Route]] = field(default_factory=lambda: ({}, {}))
    """All routes, and those of them whose record can be read."""

    # --- what users do ---

    def send(self, count: int) -> None:
        self.events += self.chance.choices(self.types, k=count)

    def change(self) -> None:
        """A new route, or another filter for one that there is."""
        self.version += 1
        uid = self.chance.choice("rst")
        types = "".join(self.chance.sample(self.types, self.chance.randint(1, len(self.types) - 1)))
        before = self.routes.get(uid)
        start = before.start if before is not None else (len(self.events),)
        self.routes = {
            **self.routes,
            uid: Route(uid, "Trigger", "n", uid, "t", attributes={"type": types}, start=start, generation=self.version),
        }
        self.rules.setdefault(uid, []).append(Rule(types))
        self.hidden.discard(uid)

    def damage(self) -> None:
        """The record of a route cannot be read any more, or all can be again."""
        self.version += 1
        self.hidden = set() if self.hidden or not self.routes else {self.chance.choice(sorted(self.routes))}
        self.routes = dict(self.routes)

    def snapshot(self) -> Snapshot:
        if not self.hidden:
            return Snapshot(self.version, routes=self.routes)
        if self._readable[0] is not self.routes:
            self._readable = self.routes, {uid: one for uid, one in self.routes.items() if uid not in self.hidden}
        return Snapshot(self.version, routes=self._readable[1], unreadable=frozenset(self.hidden))

    def acknowledge(self, generation: Generation) -> None:
        """What is sent from now on is for these filters."""
        for uid, route in generation.routes.items():
            for rule in self.rules[uid][: self._place(uid, route) + 1]:
                if rule.acknowledged is None:
                    rule.acknowledged = len(self.events)

    def _place(self, uid: str, route: Route) -> int:
        types = [rule.types for rule in self.rules[uid]]
        return max(place for place, wanted in enumerate(types) if wanted == route.attributes["type"])

    # --- what a power loss takes ---

    def lose_power(self) -> None:
        """Everything ends; the matched events, the notes and the cursors each lose an end of their own."""
        for query in self.queries:
            query.runs = query.writes = False
        self.owner = None
        self.power_failed = True
        del self.matched[len(self.matched) - min(self._lost(12), len(self.matched)) :]
        del self.reports[len(self.reports) - min(self._lost(8), len(self.reports)) :]
        noted = self.reports[-1] if self.reports else Reported()
        self.epoch, self.points, self.notes = noted.epoch, dict(noted.points), dict(noted.notes)
        del self.flushed[len(self.flushed) - min(self._lost(3), len(self.flushed)) :]
        self.cursors = PartitionCursors(0)
        if self.flushed:
            self._restore(self.flushed[-1])

    def _lost(self, most: int) -> int:
        return self.chance.choice([0, self.chance.randint(0, most)])

    def noted(self) -> None:
        self.reports.append(Reported(self.epoch, dict(self.points), dict(self.notes)))

    def write(self, entry: Entry) -> None:
        self.clock += 1
        self.matched.append(replace(entry, at=self.clock))

    def flush(self) -> None:
        """The dispatcher writes down where it is."""
        if self.cursors.position is not None:
            tail = msgspec.json.encode(self.cursors.position)
            self.flushed.append(Flushed(tail, {uid: cursor.next for uid, cursor in self.cursors.cursors.items()}))

    def _restore(self, flushed: Flushed) -> None:
        cursors = PartitionCursors(0)
        taken = [Cursor(uid, following, None, cursors.changed) for uid, following in flushed.cursors.items()]
        cursors.restore(msgspec.json.decode(flushed.tail, type=TailPosition), taken)
        last = (cursors.tail or 0) - 1
        if last >= 0 and not (last < len(self.matched) and cursors.was_last(self._read(last))):
            cursors.start_over()
        self.cursors = cursors

    # --- what Spark and the dispatcher do meanwhile ---

    def live_on(self) -> None:
        """Some of those that write, write some."""
        for query in self.chance.sample(self.queries, len(self.queries)):
            if query.writes and self.chance.random() < 0.6:
                query.step(self.chance.randint(1, 4))
        if self.chance.random() < 0.3:
            self.send(1)

    def dispatch(self, count: int) -> None:
        """The dispatcher reads on, perhaps after a restart."""
        if self.chance.random() < 0.3 and self.cursors.position is not None:
            tail = msgspec.json.decode(msgspec.json.encode(self.cursors.position), type=TailPosition)
            restored, taken = PartitionCursors(0), self.cursors.cursors.values()
            restored.restore(tail, taken)
            self.cursors = restored
        begin = self.cursors.tail or 0
        for offset in range(begin, min(begin + count, len(self.matched))):
            record = self._read(offset)
            if self.cursors.fences.shut_out(record):
                self.shut_out = max(self.shut_out, self.cursors.fences.in_force)
                record = record.without_routes()
            for new in self.cursors.take(record, self.routes, (), lambda cursor: True):
                self.delivered.add((new.cursor.route, new.delivery.origin))

    def _read(self, offset: int) -> Matched:
        entry = self.matched[offset]
        raw = {records.GENERATION: str(entry.generation).encode()} | ({records.FENCE: b"1"} if entry.fence else {})
        return Matched(0, offset, entry.at, entry.origin, routes=entry.routes, raw=raw, value=None)

    # --- what is promised ---

    def broken_promises(self) -> list[str]:
        """Events that some route got although no filter of its could say so, or did not get although all said so."""
        broken = []
        for uid, rules in self.rules.items():
            for origin, event in enumerate(self.events):
                if isinstance(event, Marker) or origin < self.routes[uid].start[0]:
                    continue
                later = [rule.acknowledged for rule in rules]
                newest = max((n for n, at in enumerate(later) if at is not None and at <= origin), default=0)
                verdicts = {event in rule.types for rule in rules[newest:]}
                got = (uid, origin) in self.delivered
                if not got and self.power_failed and origin < (len(self.events) if later[0] is None else later[0]):
                    continue  # of what came before the route was Ready, a power loss may take some
                if got not in verdicts:
                    broken.append(f"{uid} {'got' if got else 'did not get'} {origin} ({event})")
        return broken


class Driver:
    """A driver of the router: the real generations over this world. It may die at any call."""

    def __init__(self, world: World, danger: float) -> None:
        self._world, self.danger = world, danger
        world.owner = self
        self._launching: dict[str, Route] = {}
        self._markers = 0
        self._following = 0
        self.own: list[Query] = []
        self.generations = Generations(
            self._launch,
            self,  # type: ignore[arg-type]
            self,  # type: ignore[arg-type]
            MarkerWatch(2.0),
            Unplannable(lambda routes: None),
            live=self._live,
            lost=lambda route, gap: None,
            served=ServedRoutes(dict(world.notes)),
            fencing=Fencing(Noted(dict(world.points), world.epoch, world.shut_out), self),
            stopping=lambda: False,
            clock=lambda: 0.0,
        )

    def advance(self) -> bool:
        """Whether it lives on."""
        snapshot = self._world.snapshot()
        self._launching = dict(snapshot.routes)
        try:
            self.generations.advance(snapshot)
        except (Crash, RouterSuperseded):
            self.die()
            return False
        except (KafkaAway, GenerationFailed):
            return True  # it tries again
        return True

    def die(self) -> None:
        for query in self.own:
            query.stop()

    def _risk(self) -> None:
        if self._world.chance.random() < self.danger:
            raise Crash if self._world.chance.random() < 0.6 else KafkaAway("a while")

    def _launch(self, table: RouteTable, number: int, start: StartOffsets) -> Query:
        self._risk()
        query = Query(self._world, number, self._launching, start.offsets[0])
        self._world.queries.append(query)
        self.own.append(query)
        return query

    def _live(self, generation: Generation) -> None:
        self._world.acknowledge(generation)

    # --- Kafka ---

    def note_epoch(self, epoch: int) -> None:
        self._owning()
        self._world.epoch = epoch
        self._world.noted()

    def _owning(self) -> None:
        if self._world.owner is not self:
            raise RouterSuperseded

    def note(self, point: LivePoint, forget: Iterable[str]) -> None:
        self._risk()
        self._owning()
        self._world.points[contract.key_of(point.number)] = point
        for key in forget:
            self._world.points.pop(key, None)
        self._world.noted()
        self._risk()

    def note_served(self, changes: Mapping[str, Served | None]) -> None:
        self._risk()
        self._owning()
        for uid, served in changes.items():
            if served is not None:
                self._world.notes[uid] = served
        self._world.noted()
        self._risk()

    def write_fence(self, point: LivePoint, follows: int) -> None:
        self._risk()
        if self._world.fenced:
            self._world.write(Entry(point.start[0] - 1, point.number, fence=True, follows=follows))
        self._risk()

    def partitions(self) -> int:
        return 1

    def retained(self, topic: str, partitions: int) -> list[Retained]:
        self._risk()
        return [Retained(0, len(self._world.events if topic == topics.EVENTS else self._world.matched))]

    def newest(
        self, partition: int, since: int = 0, wanted: Callable[[MatchedRecord], bool] = lambda record: True
    ) -> MatchedRecord | None:
        found = [self._record(offset) for offset in range(since, len(self._world.matched))]
        return next(filter(wanted, reversed(found)), None)

    def event(self, partition: int, offset: int) -> None:
        """Nothing is compared: the events are always those that they were."""

    def note_log(self, topic_id: str) -> None:
        """There is one log only."""

    def backwards(self, partition: int) -> Iterator[list[MatchedRecord]]:
        for end in range(len(self._world.matched), 0, -4):
            yield [self._record(offset) for offset in range(max(0, end - 4), end)]

    def follow(self, ends: list[Retained]) -> None:
        self._following = ends[0].end

    def rest(self) -> None:
        """Nothing to end."""

    def poll(self, timeout: float) -> list[MatchedRecord]:
        self._risk()
        self._world.live_on()
        found = [self._record(offset) for offset in range(self._following, len(self._world.matched))]
        self._following = len(self._world.matched)
        return found

    def send(self, generation: int, partitions: Iterable[int], warm_up: int = 0) -> tuple[MarkerRound, dict[int, int]]:
        self._markers += 1
        marker = Marker(generation, self._markers, 0)
        self._world.events.append(marker)
        return MarkerRound(marker, {0}), {0: len(self._world.events) - 1}

    def _record(self, offset: int) -> MatchedRecord:
        entry = self._world.matched[offset]
        made_from = -1 if entry.fence else entry.origin
        return MatchedRecord(
            *(0, offset, entry.origin, entry.generation, 0, entry.marker, entry.fence, made_from), follows=entry.follows
        )
