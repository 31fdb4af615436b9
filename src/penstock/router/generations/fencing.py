"""From which generation routing resumes, and shutting the others out of `penstock.matched`.

A task on a machine that hangs, or that is cut off from the network, is dead to Spark and writes again when it recovers;
so do the tasks of a driver that was replaced. Kafka does not prevent that. So the readers must know which records
count, and all of them must agree. The rules, for each partition of `penstock.matched`:

1. A generation of a later router has a higher number, and so has a later one of the same router.
2. A fence of generation G is written only after the point of G was recorded. From the fence on, the dispatcher ignores
   records of lower numbers. Only the router that took over last can record points: Kafka itself refuses others.
3. Routing resumes right after the newest record of the generation whose point was recorded last; where it wrote none,
   at its start. A router reads the points after it took over, so no other router changes them meanwhile.
4. A fence above every point shows that points were lost, in a power loss. Routing then resumes right after the newest
   record of the fence's generation, and the next number is above everything in `penstock.matched`. Lost with the points
   is what was recorded before them: which routes these generations left out. A fence names the generation that counted
   before its own, so the first lost one can be found, and from its start on all routes are owed their events.

Why nothing is lost: what the dispatcher ignores has a lower number than G and comes after the fence of G. G reads every
event from its start on, so either G has written the event for all routes it knows, or G has not reached it, and then
the generation after G starts there or before, by rule 3, since records of lower numbers do not count for that either.
Events before G's start were written before G's point was made, and so before the fence. A point without a fence shuts
nothing out, and there is no fence without a point.

So a reader that has missed records of a partition, among which a fence may have been, may read the point that was
recorded last, at any time afterwards, and ignore records of lower numbers than G's from there on: no fence that it has
missed is higher, and rule 3 holds for G already. What it then ignores although no fence shuts it out are events before
G's start, or such that G and its successors write. The dispatcher takes the former from `penstock.events`: all up to
the end that is read after the point.

Why nothing is misrouted: a version is acknowledged only when the fence of its generation is in every partition, and
what an older generation decides after it, by other filters, is ignored. If a version needs no other generation, Kafka
is asked first whether this router may still record: another may have begun without that version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from penstock.contract import event_log, generations
from penstock.contract.generations import LivePoint
from penstock.contract.reports import Served
from penstock.kafka.fences import RouterSuperseded
from penstock.router.matched_record import MatchedRecord


class RouterNotes(Protocol):
    """What the router that took over last records in Kafka; others get RouterSuperseded."""

    def note_epoch(self, epoch: int) -> None:
        """Gives this router its epoch."""

    def note_log(self, topic_id: str) -> None:
        """Records the id of the topic whose events are routed."""

    def note(self, point: LivePoint, forget: Iterable[str]) -> None:
        """Records the point from which routing resumes."""

    def note_served(self, changes: Mapping[str, Served | None]) -> None:
        """Records which routes are served, and which were left out."""

    def write_fence(self, point: LivePoint, follows: int) -> None:
        """Writes a generation's fence to every partition; the one that counted before has the number `follows`. Raises
        KafkaAway where that is not confirmed."""


class FormerNotes(Protocol):
    """What former routers recorded, read after this one took over. Reading may still be in progress at first."""

    @property
    def points(self) -> Mapping[str, LivePoint]:
        """By key."""

    @property
    def epoch(self) -> int:
        """The newest."""

    @property
    def log(self) -> str:
        """Id of the topic whose events were routed; empty where none was recorded."""

    @property
    def fence(self) -> int:
        """The highest fence that was found to shut out a generation by mistake; 0 where there was none."""


ENOUGH_RECORDS, ENOUGH_AFTER = 256, 65_536
"""Records without a number above the noted one that are enough to look no further back: where none was seen at all, and
after one was."""


class LookBack(NamedTuple):
    """What a partition shows of generations that are not recorded."""

    highest: int = 0
    """The highest number of all, 0 where there is no record."""
    fence: int = 0
    """That of the highest fence above the noted point; 0 where there is none."""
    since: int = 0
    """The events from this one on may not have been routed for all routes."""


def look_back(pieces: Iterable[Sequence[MatchedRecord]], noted: int) -> LookBack:
    """Looks through a partition, whose records come in pieces from its end back.

    A fence stands where its generation begins to count, so as long as there are records of a generation that is not
    noted, its fence may lie further back. The fence of the first generation that is not noted follows the noted one.
    """
    highest = fence = without = 0
    since = routed = None
    oldest: MatchedRecord | None = None
    for records in pieces:
        above = [record for record in records if record.generation > noted]
        highest = max([highest, *(record.generation for record in records)])
        fence = max([fence, *(record.generation for record in above if record.fence)])
        for record in reversed(records):
            if record.fence and record.follows == noted < record.generation:
                since = record.origin + 1
            elif routed is None and record.generation == noted:
                routed = record.origin + 1
        oldest = records[0] if records else oldest
        without = 0 if above else without + len(records)
        found = fence and fence == highest and since is not None
        if found or without >= (ENOUGH_AFTER if highest > noted else ENOUGH_RECORDS):
            break
    else:
        if oldest is not None and oldest.offset > 0 and oldest.generation > noted:
            fence = max(fence, oldest.generation)  # retention has removed the fence of one that wrote all there is
    if since is None and not fence:
        since = routed  # the fence was lost as well
    return LookBack(highest, fence, since or 0)


class Fencing:
    """The point that counts, for one router."""

    def __init__(self, found: FormerNotes, writer: RouterNotes, heartbeat: Callable[[], None] = lambda: None) -> None:
        """Calls `heartbeat` before everything that may wait for Kafka."""
        self._found, self._writer, self._heartbeat = found, writer, heartbeat
        self._own: LivePoint | None = None
        self._epoch: int | None = None
        self._fence = 0
        self._highest = 0
        self.highest: list[int] = []
        """By partition: the highest generation that was found there before the first of this router."""
        self.owed: tuple[int, ...] = ()
        """By partition, where generations were noted and the notes are lost: from where on all routes are owed their
        events."""

    def check_log(self, topic_id: str) -> None:
        """To be called before the first generation, with the id of the events' topic. Raises AnotherLog."""
        event_log.check_id(self._found.log, topic_id)
        if topic_id and not self._found.log:
            self._heartbeat()
            self._writer.note_log(topic_id)

    def look_for_lost_records(self, partitions: Iterable[Iterable[Sequence[MatchedRecord]]]) -> None:
        """To be called before the first generation: the notes of former routers may have been lost, and their fences
        not, in a power loss. What follows needs a higher number than any fence, or nothing of it would count.

        Each partition gives its records in pieces from its end back. Where a fence is higher than every point, routing
        resumes from that fence's generation.
        """
        point = generations.newest(self._found.points.values())
        noted = point.number if point is not None else 0
        looks = [look_back(pieces, noted) for pieces in partitions]
        self.highest = [look.highest for look in looks]
        self._highest = max([self._found.fence, *self.highest])
        fence = max([self._found.fence, *(look.fence for look in looks)])
        if fence > noted:
            # By a fence that is gone here, tasks may have left out even what the noted generation wrote.
            self.owed = tuple(look.since if look.fence >= self._found.fence else 0 for look in looks)
            self._fence = fence

    @property
    def unrecorded(self) -> int:
        """The generation from which routing resumes, if a fence shows it and no point does; otherwise 0."""
        return 0 if self._own else self._fence

    def number_after(self, newest: int) -> int:
        """The number of the next generation, where `newest` is the highest that this router has given."""
        newest = max(newest, self._highest)
        if self._epoch is None:
            numbers = [one.number for one in self._found.points.values()] + ([newest] if newest else [])
            epoch = max([self._found.epoch, *map(generations.epoch_of, numbers)])
            self._heartbeat()
            self._writer.note_epoch(epoch + 1)
            self._epoch = epoch + 1
        number = max(self._epoch * generations.PER_EPOCH, newest) + 1
        self._epoch = generations.epoch_of(number)
        return number

    @property
    def point(self) -> LivePoint | None:
        """The point from which routing resumes; None where none was ever recorded."""
        return self._own or generations.newest(self._found.points.values())

    def shut_out_others(self, point: LivePoint) -> None:
        """From now on only this generation counts, and what follows it."""
        forget = [] if self._own else [key for key in self._found.points if key != generations.key_of(point.number)]
        before = self.point
        follows = max(self.unrecorded, before.number if before is not None else 0)
        self._heartbeat()
        self._writer.note(point, forget)
        self._own = point
        self._heartbeat()
        self._writer.write_fence(point, follows)

    def confirm(self) -> None:
        """Raises RouterSuperseded where another router has taken over, whether or not it has written anything yet."""
        if self._epoch is not None:
            self._heartbeat()
            self._writer.note_epoch(self._epoch)

    def note_served(self, changes: Mapping[str, Served | None]) -> None:
        """Which routes are served, and which were left out from where on, for the router after this one."""
        if changes:
            self._heartbeat()
            self._writer.note_served(changes)

    def check(self, found: Iterable[MatchedRecord]) -> None:
        """Raises RouterSuperseded where a later router writes."""
        for record in found:
            if self._epoch is not None and generations.epoch_of(record.generation) > self._epoch:
                raise RouterSuperseded(f"another pipeline has taken over: it writes generation {record.generation}")
