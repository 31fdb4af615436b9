"""Kafka and Spark as the generations see them, in memory: a query lets every marker through at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from penstock.contract import topics
from penstock.contract.routes import Route
from penstock.contract.snapshot import Snapshot
from penstock.router.generations import Generation, Generations
from penstock.router.markers import MarkerWatch, Round
from penstock.router.matched_record import Marker, MatchedRecord
from penstock.router.positions import Gap, Retained, StartOffsets
from penstock.router.route_index import RouteTable
from penstock.router.unplannable import Unplannable


@dataclass
class QueryDouble:
    """Runs until it is stopped."""

    running: bool = True

    def alive(self) -> bool:
        return self.running

    def reason(self) -> str:
        return "it was stopped"

    def stop(self) -> None:
        self.running = False


@dataclass
class Scene:
    """One partition of events, the newest origin that was routed, and what the generations did and told."""

    events: Retained
    origin: int | None = None
    fails: list[BaseException] = field(default_factory=list)
    """Raised by the next starts of a query, one each."""
    bad: str = ""
    """The route that cannot be planned."""
    lost: list[tuple[str, Gap]] = field(default_factory=list)
    tables: list[RouteTable] = field(default_factory=list)
    starts: list[StartOffsets] = field(default_factory=list)
    announced: list[Generation] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._coming: list[MatchedRecord] = []
        self.generations = Generations(
            self._launch,
            self,  # type: ignore[arg-type]
            self,  # type: ignore[arg-type]
            MarkerWatch(2.0),
            Unplannable(lambda routes: "bad" if any(route.uid == self.bad for route in routes) else None),
            live=self.announced.append,
            lost=lambda route, gap: self.lost.append((route.uid, gap)),
            stopping=lambda: False,
        )

    def advance(self, version: int, *routes: Route) -> None:
        self.generations.advance(Snapshot(version, routes={route.uid: route for route in routes}))

    def _launch(self, table: RouteTable, number: int, start: StartOffsets) -> QueryDouble:
        if self.fails:
            raise self.fails.pop(0)
        if self.bad in {found.uid for bucket in table.unfiled for found in bucket.candidates}:
            raise RuntimeError("the table cannot be planned")
        self.tables.append(table)
        self.starts.append(start)
        return QueryDouble()

    def partitions(self) -> int:
        return 1

    def retained(self, topic: str, partitions: int) -> list[Retained]:
        return [self.events if topic == topics.EVENTS else Retained(0, 0)]

    def newest(self, partition: int) -> MatchedRecord | None:
        return None if self.origin is None else MatchedRecord(partition, 0, self.origin, 0, 0)

    def follow(self, ends: list[Retained]) -> None:
        """Nothing is behind."""

    def rest(self) -> None:
        """Nothing to end."""

    def poll(self, timeout: float) -> list[MatchedRecord]:
        found, self._coming = self._coming, []
        return found

    def send(self, generation: int, partitions: Iterable[int], warm_up: int = 0) -> tuple[Round, dict[int, int]]:
        marker = Marker(generation, 1, 0)
        self._coming.append(MatchedRecord(0, 0, self.events.end, generation, 0, marker))
        return Round(marker, set(partitions)), {0: self.events.end}
