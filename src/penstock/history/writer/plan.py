"""When the writer is started and how fast it goes, as a value.

To start it costs as much as to write some ten thousand events, and each run leaves files behind, so it is done seldom:
when much has gathered, before retention would take something, and once a day where there is little. Kafka has the rest,
and questions read it there, which is why it must not become too much.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from penstock.contract.topics import TOPICS
from penstock.kafka.topic_ends import Retained
from penstock.settings import Settings

MIB = 2**20
GATHER_RECORDS = 100_000
GATHER_BYTES = 256 * MIB
RISKY = 0.35
"""Part of what Kafka retains that may be unwritten before the writer starts whatever has gathered."""
URGENT = 0.6
"""Part from which on the writer runs with the priority of everything else, while records arrive fast."""
LAST = 0.85
"""The same for slow arrivals. Kafka removes whole segments, so the rest cannot be relied on."""
FAST = 4000.0
"""Records a second, of both topics: half of what a writer with rests gets done on two cores of 2026."""
LONGEST_HOURS = 24.0
SHORTEST_SECONDS = 2.0
"""Between two measurements of the arrival rate."""

Urgency = Literal["rest", "leisure", "write", "hurry"]
"""Nothing to do; to write with rests in between; without them, but giving way to everything else; beside it."""


@dataclass(frozen=True)
class TableStanding:
    """How far a table is behind its topic."""

    topic: str
    retained: Mapping[int, Retained]
    positions: Mapping[int, int]
    bytes_per_record: float

    @property
    def behind(self) -> int:
        """Records that are not in the table."""
        return sum(self._behind(partition) for partition in self.retained)

    def risk(self, settings: Settings) -> float:
        """The largest part of a partition's room that is not in the table: at 1 retention removes unwritten records."""
        return max((self._risk(partition, settings) for partition in self.retained), default=0.0)

    def _behind(self, partition: int) -> int:
        kept = self.retained[partition]
        return kept.end - max(kept.first, self.positions.get(partition, 0))

    def _risk(self, partition: int, settings: Settings) -> float:
        kept, behind = self.retained[partition], self._behind(partition)
        share = next(topic.share for topic in TOPICS if topic.name == self.topic)
        room = settings.retention_mib * MIB * share / len(self.retained)
        by_size = behind * self.bytes_per_record / room
        # Where retention is at work already, what is retained says more than sizes that are guessed.
        by_count = behind / (kept.end - kept.first) if kept.first > 0 else 0.0
        return max(by_size, by_count)


class Inflow:
    """The arrival rate of records, from two measurements that are far enough apart."""

    def __init__(self) -> None:
        self._rate = math.inf
        self._before: tuple[int, float] | None = None

    def rate(self, total: int, now: float) -> float:
        """Records a second, as far as is known now that there have been `total`; infinite where nothing is known."""
        if self._before is None:
            self._before = total, now
        elif (seconds := now - self._before[1]) >= SHORTEST_SECONDS:
            self._rate, self._before = (total - self._before[0]) / seconds, (total, now)
        return self._rate


def urgency(
    standings: list[TableStanding], settings: Settings, hours_since: float, asked: bool, rate: float = math.inf
) -> Urgency:
    """Whether to write now; `hours_since` is how long ago it was last done, `asked` whether a query waits for it.

    `rate` is how many records come in a second, as far as that is known.
    """
    behind = sum(standing.behind for standing in standings)
    if behind <= 0:
        return "rest"
    risk = max(standing.risk(settings) for standing in standings)
    fast = rate > FAST
    if risk >= LAST or (fast and risk >= URGENT):
        return "hurry"
    if asked or (fast and risk >= RISKY):
        return "write"
    gathered = any(
        standing.behind >= GATHER_RECORDS or standing.behind * standing.bytes_per_record >= GATHER_BYTES
        for standing in standings
    )
    late = hours_since >= min(LONGEST_HOURS, settings.retention_hours / 4)
    return "leisure" if gathered or late or risk >= RISKY else "rest"


THROTTLED_SHARE = 0.15
"""Of one processor. That is some 4,000 events a second with an attempt each; who gets more for long is urged on."""


class WriterPace:
    """Throttles the writer to a share of one processor: it calls `rest` between two steps.

    The lowest priority alone is not enough: processors share caches, and Linux divides their time among sessions
    first, so that deliveries would be slower.
    """

    def __init__(
        self,
        share: float = 1.0,
        urged: Callable[[], bool] = lambda: False,
        *,
        now: Callable[[], float] = time.monotonic,
        used: Callable[[], float] = time.process_time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`urged` says whether to go on without a rest for now; `used` is the processor time of all its threads."""
        self._share, self._urged, self._now, self._used, self._sleep = share, urged, now, used, sleep
        self._since = now(), used()

    def slow_down(self, share: float) -> None:
        """From the next step on it is to be this share."""
        self._share = share

    def rest(self) -> None:
        """Rests for as long as the last step asks for."""
        began, used = self._since
        due = (self._used() - used) / self._share - (self._now() - began)
        if self._share < 1 and due > 0 and not self._urged():
            self._sleep(due)
        self._since = self._now(), self._used()
