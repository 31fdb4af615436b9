"""Which generation routing goes on from, and shutting the others out of `penstock.matched`.

A task on a machine that hangs, or that the network cut off, is dead to Spark and writes again when it wakes up; so do
the tasks of a driver that was replaced. Kafka lets anybody write. So it is the readers who must know whose records
count, and all must find the same. The rules, for each partition of `penstock.matched`:

1. A generation of a later router has a higher number, and so has a later one of the same router.
2. A fence of generation G is put up only after the point of G was noted. From the fence on, no record of a lower number
   counts for the dispatcher. Points are noted by the router that took over last only: Kafka itself refuses others.
3. Routing goes on right after the newest record of the generation whose point was noted last; where it wrote none, at
   its start. A router reads what was noted after it took over, so nobody changes it meanwhile.

Why nothing is lost: what the dispatcher leaves out has a lower number than G and lies behind the fence of G. G reads
every event from its start on, so either G has written the event for all routes it knows, or G has not come to it, and
then whoever follows G starts there or before, by rule 3, since records of lower numbers do not count for that either.
Events before G's start were written before G's point was made, and so before the fence. A point without a fence leaves
nothing out, and there is no fence without a point.

Why nothing is misrouted: a version is acknowledged only when the fence of its generation stands in every partition, and
what an older generation decides behind it, by other filters, reaches nobody. Where a version needs no other generation,
Kafka is asked first whether this router is still the one that may note: another may have begun without that version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from penstock.contract import generations
from penstock.contract.generations import LivePoint
from penstock.contract.reports import Served
from penstock.log.fences import RouterSuperseded
from penstock.router.matched_record import MatchedRecord


class RouterNotes(Protocol):
    """What is asked of Kafka, by the router that took over last; others get RouterSuperseded."""

    def note_epoch(self, epoch: int) -> None:
        """Gives this router its epoch."""

    def note(self, point: LivePoint, forget: Iterable[str]) -> None:
        """Routing goes on from this point."""

    def note_served(self, changes: Mapping[str, Served | None]) -> None:
        """Which routes are served, and which were left out."""

    def put_up(self, point: LivePoint) -> None:
        """Puts up a generation's fence in every partition. Raises KafkaAway where it cannot be sure."""


class FormerNotes(Protocol):
    """What former routers noted, read after this one took over. It may still be read when it is handed in."""

    @property
    def points(self) -> Mapping[str, LivePoint]:
        """By key."""

    @property
    def epoch(self) -> int:
        """The newest."""


class Fencing:
    """The point that counts, for one router."""

    def __init__(self, found: FormerNotes, writer: RouterNotes, beat: Callable[[], None] = lambda: None) -> None:
        """Calls `beat` before everything that may wait for Kafka."""
        self._found, self._writer, self._beat = found, writer, beat
        self._own: LivePoint | None = None
        self._epoch: int | None = None

    def number_after(self, newest: int) -> int:
        """The number of the next generation, where `newest` is the highest that was seen."""
        if self._epoch is None:
            epoch = max([self._found.epoch, *(generations.epoch_of(one.number) for one in self._found.points.values())])
            self._beat()
            self._writer.note_epoch(epoch + 1)
            self._epoch = epoch + 1
        number = max(self._epoch * generations.PER_EPOCH, newest) + 1
        self._epoch = generations.epoch_of(number)
        return number

    @property
    def point(self) -> LivePoint | None:
        """From where routing goes on; None where nothing was ever noted."""
        return self._own or generations.newest(self._found.points.values())

    def shut_out_others(self, point: LivePoint) -> None:
        """From now on only this generation counts, and what follows it."""
        forget = [] if self._own else [key for key in self._found.points if key != generations.key_of(point.number)]
        self._beat()
        self._writer.note(point, forget)
        self._own = point
        self._beat()
        self._writer.put_up(point)

    def confirm(self) -> None:
        """Raises RouterSuperseded where another router has taken over, whether or not it has written anything yet."""
        if self._epoch is not None:
            self._beat()
            self._writer.note_epoch(self._epoch)

    def note_served(self, changes: Mapping[str, Served | None]) -> None:
        """Which routes are served, and which were left out from where on, for the router after this one."""
        if changes:
            self._beat()
            self._writer.note_served(changes)

    def check(self, found: Iterable[MatchedRecord]) -> None:
        """Raises RouterSuperseded where a later router writes."""
        for record in found:
            if self._epoch is not None and generations.epoch_of(record.generation) > self._epoch:
                raise RouterSuperseded(f"another pipeline has taken over: it writes generation {record.generation}")
