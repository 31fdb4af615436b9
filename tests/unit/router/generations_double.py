"""Kafka and Spark as the generations see them, in memory, with a clock that moves while they wait.

Every query that runs passes on every marker from its start on, each partition after a delay of its own, as Spark's
tasks do; what it passes on is the newest record of its partition from then on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.contract import generations as contract
from penstock.contract import topics
from penstock.contract.generations import LivePoint
from penstock.contract.reports import Served
from penstock.contract.routes import Route
from penstock.contract.snapshot import Snapshot
from penstock.kafka.fences import RouterSuperseded
from penstock.kafka.topic_ends import Retained
from penstock.router.generations.fencing import Fencing
from penstock.router.generations.generations import Generation, Generations
from penstock.router.generations.markers import MarkerRound, MarkerWatch
from penstock.router.generations.positions import LostRange, StartOffsets
from penstock.router.generations.served_routes import ServedRoutes
from penstock.router.matched_record import Marker, MatchedRecord
from penstock.router.plan.route_index import RouteTable
from penstock.router.plan.unplannable import Unfit, Unplannable

NEVER = float("inf")


@dataclass
class QueryDouble:
    """Runs until it is stopped."""

    number: int
    start: StartOffsets
    began: float
    ended: Callable[[int], None]
    running: bool = True
    passed: set[tuple[Marker, int]] = field(default_factory=set)

    def alive(self) -> bool:
        return self.running

    def reason(self) -> str:
        return "it was stopped"

    def stop(self) -> None:
        if self.running:
            self.ended(self.number)
        self.running = False


@dataclass(frozen=True)
class Noted:
    """What former routers noted."""

    points: dict[str, LivePoint]
    epoch: int
    fence: int = 0
    log: str = ""


@dataclass
class Scene:
    """The partitions of the events, the newest origin routed in each, and what the generations did and told."""

    events: list[Retained]
    origin: int | None = None
    """Of every partition that no query of this scene has written to."""
    fails: list[BaseException] = field(default_factory=list)
    """Raised by the next starts of a query, one each."""
    bad: str = ""
    """The route that cannot be planned."""
    bad_for_ever: bool = True
    away: BaseException | None = None
    """Raised by Kafka when it is asked about the events."""
    delays: dict[tuple[int, int], float] = field(default_factory=lambda: defaultdict(float))
    """Seconds until a marker comes out, by generation and partition."""
    lost: list[tuple[str, LostRange]] = field(default_factory=list)
    tables: list[RouteTable] = field(default_factory=list)
    queries: list[QueryDouble] = field(default_factory=list)
    announced: list[Generation] = field(default_factory=list)
    happened: list[str] = field(default_factory=list)
    """What was seen from outside, in its order."""
    now: float = 100.0
    notes: dict[str, Served] = field(default_factory=dict)
    """What is noted of the routes for the next process."""
    topic_id: str = "the first"
    """Of the events, as Kafka says."""
    log: str = ""
    """The id that is noted."""
    stored: dict[tuple[int, int], list[tuple[str, bytes | None]]] = field(default_factory=dict)
    """Headers of events, by partition and offset."""
    superseded: bool = False
    """Whether another router has taken over."""
    note_fails: BaseException | None = None
    """Raised when something has to be noted."""

    def __post_init__(self) -> None:
        self._markers: list[tuple[Marker, int, int, float]] = []
        self._written: dict[int, list[MatchedRecord]] = defaultdict(list)
        self.points: dict[str, LivePoint] = {}
        self.epoch = 0
        self.restart()

    def restart(self) -> None:
        """All processes die; another router begins with what is in Kafka."""
        for query in self.queries:
            query.running = False
        self.generations = Generations(
            self._launch,
            self,  # type: ignore[arg-type]
            self,  # type: ignore[arg-type]
            MarkerWatch(2.0),
            Unplannable(self._probe, lambda: self.now),
            live=self._live,
            lost=lambda route, gap: self.lost.append((route.uid, gap)),
            served=ServedRoutes(dict(self.notes)),
            fencing=Fencing(Noted(dict(self.points), self.epoch - 1, log=self.log), self),
            log_id=lambda: self.topic_id,
            stopping=lambda: False,
            clock=lambda: self.now,
        )

    @property
    def serving(self) -> Generation:
        """The live generation, which there is."""
        assert self.generations.live is not None
        return self.generations.live

    @property
    def starts(self) -> list[StartOffsets]:
        return [query.start for query in self.queries]

    def advance(self, version: int, *routes: Route, unreadable: str = "") -> None:
        uids = frozenset([unreadable] if unreadable else [])
        self.generations.advance(Snapshot(version, routes={route.uid: route for route in routes}, unreadable=uids))

    def tend(self, seconds: float) -> None:
        """Lets the live generation be tended for a time."""
        until = self.now + seconds
        while self.now < until:
            self.generations.watch_markers()
            self.now += 0.5

    def wrote(self, generation: int, partition: int, origin: int) -> MatchedRecord:
        """A query writes a record of an event; the next look sees it."""
        record = MatchedRecord(partition, 0, origin, generation, 0, None, False, origin, (f"{origin}".encode(),))
        self._written[partition].append(record)
        self.generations.watch.saw([record], self.now)
        return record

    def note_epoch(self, epoch: int) -> None:
        if self.superseded:
            raise RouterSuperseded
        self.epoch = epoch + 1

    def note(self, point: LivePoint, forget: Iterable[str]) -> None:
        for key in forget:
            del self.points[key]
        self.points[contract.key_of(point.number)] = point
        self.happened.append(f"{point.number} is noted")

    def write_fence(self, point: LivePoint, follows: int) -> None:
        assert contract.newest(self.points.values()) == point, "no fence without a point"
        self.happened.append(f"{point.number} is fenced")
        for partition, start in enumerate(point.start):
            fence = MatchedRecord(partition, 0, start - 1, point.number, 0, fence=True, follows=follows)
            self._written[partition].append(fence)

    def note_served(self, changes: Mapping[str, Served | None]) -> None:
        if self.note_fails is not None:
            raise self.note_fails
        for uid, served in changes.items():
            if served is None:
                self.notes.pop(uid)
            else:
                self.notes[uid] = served

    def _probe(self, routes: Sequence[Route]) -> Unfit | None:
        return Unfit("bad", final=self.bad_for_ever) if any(route.uid == self.bad for route in routes) else None

    def _live(self, generation: Generation) -> None:
        self.announced.append(generation)
        self.happened.append(f"{generation.number} is live")

    def _launch(self, table: RouteTable, number: int, start: StartOffsets) -> QueryDouble:
        if self.fails:
            raise self.fails.pop(0)
        if self.bad in {found.uid for bucket in table.unfiled for found in bucket.candidates}:
            raise RuntimeError("the table cannot be planned")
        self.tables.append(table)
        query = QueryDouble(number, start, self.now, lambda ended: self.happened.append(f"{ended} ends"))
        self.queries.append(query)
        return query

    def partitions(self) -> int:
        return len(self.events)

    def retained(self, topic: str, partitions: int) -> list[Retained]:
        if topic == topics.EVENTS and self.away is not None:
            raise self.away
        return list(self.events) if topic == topics.EVENTS else [Retained(0, 0)] * partitions

    def newest(
        self, partition: int, since: int = 0, wanted: Callable[[MatchedRecord], bool] = lambda record: True
    ) -> MatchedRecord | None:
        before = [] if self.origin is None else [MatchedRecord(partition, 0, self.origin, 0, 0)]
        return next(filter(wanted, reversed(before + self._written[partition])), None)

    def event(self, partition: int, offset: int) -> list[tuple[str, bytes | None]] | None:
        return self.stored.get((partition, offset))

    def note_log(self, topic_id: str) -> None:
        self.log = topic_id

    def backwards(self, partition: int) -> Iterator[list[MatchedRecord]]:
        yield self._written[partition]

    def follow(self, ends: list[Retained]) -> None:
        """Nothing is behind."""

    def rest(self) -> None:
        """Nothing to end."""

    def poll(self, timeout: float) -> list[MatchedRecord]:
        self.now += timeout
        found = [record for query in self.queries if query.running for record in self._coming_out(query)]
        for record in found:
            self._written[record.partition].append(record)
        return found

    def _coming_out(self, query: QueryDouble) -> list[MatchedRecord]:
        found = []
        for marker, partition, offset, sent in self._markers:
            due = max(sent, query.began) + self.delays[query.number, partition]
            new = (marker, partition) not in query.passed and offset >= query.start.offsets[partition]
            if new and self.now >= due:
                query.passed.add((marker, partition))
                self.happened.append(f"{query.number} passes {marker.sequence} in {partition}")
                found.append(MatchedRecord(partition, 0, offset, query.number, 0, marker))
        return found

    def send(self, generation: int, partitions: Iterable[int], warm_up: int = 0) -> tuple[MarkerRound, dict[int, int]]:
        marker = Marker(generation, 1 + len({sent[0] for sent in self._markers}), int(self.now * 1000))
        offsets = {}
        for partition in partitions:
            kept = self.events[partition]
            offsets[partition] = kept.end
            self._markers.append((marker, partition, kept.end, self.now))
            self.events[partition] = Retained(kept.first, kept.end + 1)
        return MarkerRound(marker, set(offsets)), offsets
