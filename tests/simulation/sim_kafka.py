"""Kafka: topics with what of them is on disk, retention, compaction, transactions; and what may go wrong with it.

Only what brokers know is here, and every call has its effect at once: when a request arrives, gets lost or is repeated
is decided by the clients (`sim_clients`). What any record means is not known here.

What a power loss leaves follows the real one. A topic that is flushed with every record keeps them all; of another,
each partition loses an end of its own, back to what the system had written by itself. The coordinator of transactions
may know more or less than the partitions, so that a transaction which was cut is aborted, committed as far as it was
kept, left open until its producer commits the next one, or forgotten: then it is open until somebody ends it.
"""

from __future__ import annotations

import random
import zlib
from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, Protocol

from penstock.contract.topics import EVENTS, TOPICS
from tests.simulation.sim_machine import Machine

Headers = list[tuple[str, bytes | None]]
NEVER = float("inf")
DISK_SECONDS = 5.0
"""How often the system writes to disk by itself what is not flushed: now of these files, now of those."""
DISK_PART = 0.25
"""The part of all partitions that it writes at a time."""
DELETE_SECONDS = 3600.0
"""How long compaction keeps a tombstone."""


class Waits(Protocol):
    """One that waits for records."""

    def wake(self) -> None:
        """There are some."""


class FencedProducer(Exception):
    """Another producer has the transactional id now."""


@dataclass(slots=True)
class Record:
    """One record of a partition."""

    offset: int
    at: int
    """Unix milliseconds."""
    key: bytes | None
    value: bytes | None
    headers: Headers | None
    producer: int | None = None
    """Of a transaction."""
    control: Literal["", "commit", "abort"] = ""
    """On what ends a transaction."""


class Partition:
    """The log of one partition."""

    def __init__(self, topic: Topic, number: int) -> None:
        self.topic, self.number = topic, number
        self.records: list[Record] = []
        self.first = self.end = self.on_disk = 0
        self.open: dict[int, int] = {}
        """By producer, the first offset of its transaction."""
        self.aborted: list[tuple[int, int, int]] = []
        """Producer, first and last offset of each transaction that was aborted."""
        self.committed: list[tuple[int, float]] = []
        """Where transactions end that were committed, and when each began."""
        self.unwritable_until = 0.0
        """When it takes records again: it has too few replicas in sync, or no leader."""
        self.waiting: deque[Waits] = deque()
        """Those that wait at its end."""

    @property
    def stable(self) -> int:
        """The offset before which every transaction has ended."""
        return min(self.open.values(), default=self.end)

    def append(self, record: Record) -> int:
        """Writes it; its offset."""
        record.offset = self.end
        self.records.append(record)
        self.end += 1
        if record.control:
            self._end_transaction(record)
        elif record.producer is not None:
            self.open.setdefault(record.producer, record.offset)
        if self.topic.flushed:
            self.on_disk = self.end
        for one in tuple(self.waiting):
            one.wake()
        return record.offset

    def _end_transaction(self, record: Record) -> None:
        producer = record.producer or 0
        begin = self.open.pop(producer, None)
        if begin is not None and record.control == "abort":
            self.aborted.append((producer, begin, record.offset))

    def read(self, begin: int) -> Iterator[Record]:
        """The committed records from an offset on."""
        stop = self.stable
        for place in range(bisect_left(self.records, begin, key=_offset), len(self.records)):
            record = self.records[place]
            if record.offset >= stop:
                return
            if not record.control and not self._is_aborted(record):
                yield record

    def _is_aborted(self, record: Record) -> bool:
        return record.producer is not None and any(
            record.producer == producer and first <= record.offset <= last for producer, first, last in self.aborted
        )

    def part(self, part: float) -> int:
        """The offset before which such a part of all records is."""
        return self.first + int((self.end - self.first) * part)

    def remove_before(self, offset: int) -> None:
        """Retention removes what is before an offset."""
        self.first = max(self.first, offset)
        del self.records[: bisect_left(self.records, self.first, key=_offset)]
        self.on_disk = max(self.on_disk, self.first)

    def compact(self, now_ms: int) -> None:
        """Keeps the newest record of each key, and the deletion of one for a while; what ended transactions stays. Only
        segments that are complete are compacted, and those are on disk."""
        stop = min(self.stable, self.on_disk)
        newest = {record.key: record.offset for record in self.records if not record.control and record.offset < stop}
        kept = []
        for record in self.records:
            if record.offset < stop and not record.control:
                old = record.value is None and now_ms - record.at > DELETE_SECONDS * 1000
                if newest[record.key] != record.offset or old or self._is_aborted(record):
                    continue
            kept.append(record)
        self.records = kept

    def cut(self, end: int) -> None:
        """Everything from an offset on is gone."""
        if end >= self.end:
            return
        self.end = max(self.first, end)
        del self.records[bisect_left(self.records, self.end, key=_offset) :]
        self.on_disk = min(self.on_disk, self.end)
        self.committed = [one for one in self.committed if one[0] < self.end]
        self.open.clear()
        self.aborted.clear()
        for record in self.records:
            if record.control:
                self._end_transaction(record)
            elif record.producer is not None:
                self.open.setdefault(record.producer, record.offset)


def _offset(record: Record) -> int:
    return record.offset


@dataclass
class Topic:
    """A topic."""

    name: str
    ident: str
    compacted: bool
    flushed: bool
    """Whether a record is on disk before it is acknowledged."""
    partitions: list[Partition] = field(default_factory=list)

    @property
    def config(self) -> dict[str, str]:
        """What its settings are, as far as they are asked for."""
        policy = "compact" if self.compacted else "delete"
        return {
            "cleanup.policy": policy,
            "retention.ms": "604800000",
            "retention.bytes": "-1",
            "segment.bytes": "67108864",
        }

    def widen(self, count: int) -> None:
        """Gives it so many partitions."""
        for number in range(len(self.partitions), count):
            self.partitions.append(Partition(self, number))


@dataclass
class Transactions:
    """What the coordinator knows of a transactional id."""

    producer: int
    epoch: int = 0
    under_way: list[Partition] = field(default_factory=list)
    """Partitions that the transaction under way has written to."""
    begun: float = 0.0
    timeout: float = NEVER
    ending: bool = False
    """Whether it was committed, and the partitions do not show it yet."""


@dataclass(frozen=True)
class Load:
    """A process has taken over a transactional id."""

    at: float
    process: float
    """When the process began."""
    written: float
    """When the newest transaction began of which anything was left."""


class SimKafka:
    """The brokers, taken as one."""

    def __init__(
        self, machine: Machine, partitions: int, flushed: Callable[[str, bool], bool], *, embedded: bool
    ) -> None:
        """`flushed` says of a topic whether it is flushed with every record, by its name and what penstock asks for."""
        self.machine, self._embedded = machine, embedded
        machine.kafka = self
        self._chance, self.chance_of_clients = machine.chance("kafka"), machine.chance("clients")
        self._disk_chance = machine.chance("disk")
        self.topics = {
            topic.name: Topic(
                topic.name, f"id of {topic.name}", topic.cleanup == "compact", flushed(topic.name, topic.flushed)
            )
            for topic in TOPICS
        }
        self._per_partition = [topic.name for topic in TOPICS if topic.per_partition]
        for topic in TOPICS:
            self.topics[topic.name].widen(partitions if topic.per_partition else 1)
        self._transactions: dict[str, Transactions] = {}
        self._producers = 0
        self._written_by: dict[str, dict[Partition, None]] = defaultdict(dict)
        """By transactional id: partitions that it was ever written to with."""
        self.away_until = 0.0
        """When brokers answer again."""
        self.unreliable_until = 0.0
        """Until when requests and answers get lost on the way."""
        self.archive: list[tuple[int, Record, float]] = []
        """Everything that was ever written to the events: partition, record, and when."""
        self.loads: dict[str, list[Load]] = defaultdict(list)
        """By transactional id: who has taken it over."""
        self._write_to_disk()

    # --- what clients ask for ------------------------------------------------------------------------------------

    @property
    def away(self) -> bool:
        """Whether nothing answers."""
        return self.machine.now < self.away_until

    def loses_message(self) -> bool:
        """Whether a request, or its answer, gets lost."""
        return self.machine.now < self.unreliable_until and self._chance.random() < 0.3

    def partition(self, topic: str, number: int) -> Partition:
        """One partition."""
        return self.topics[topic].partitions[number]

    def takes_records(self, partition: Partition) -> bool:
        """Whether it can be written."""
        return not self.away and self.machine.now >= partition.unwritable_until

    def place(self, topic: str, key: bytes | None, spread: random.Random) -> int:
        """The partition of a key."""
        count = len(self.topics[topic].partitions)
        return spread.randrange(count) if key is None else zlib.crc32(key) % count

    def append(self, partition: Partition, key: bytes | None, value: bytes | None, headers: Headers | None) -> int:
        """Writes a record without a transaction; its offset."""
        record = Record(0, int(self.machine.wall * 1000), key, value, headers)
        if partition.topic.name == EVENTS:
            self.archive.append((partition.number, record, self.machine.now))
        return partition.append(record)

    def open_transactions(self, ident: str, timeout: float, process: float) -> int:
        """Gives an id to a producer: who had it before is fenced, and what it had under way is aborted."""
        found = self._transactions.get(ident)
        if found is None:
            self._producers += 1
            found = self._transactions[ident] = Transactions(self._producers)
        elif found.ending:
            self._show(found, "commit")
        else:
            self._show(found, "abort")
        found.epoch += 1
        found.timeout = timeout
        tables = (partition for partition in self._written_by[ident] if partition.topic.compacted)
        left = (begun for partition in tables for _, begun in partition.committed)
        self.loads[ident].append(Load(self.machine.now, process, max(left, default=0.0)))
        return found.epoch

    def append_in_transaction(
        self, ident: str, epoch: int, partition: Partition, key: bytes | None, value: bytes | None
    ) -> int:
        """Writes a record of a transaction. Raises FencedProducer."""
        found = self._checked(ident, epoch)
        if found.ending:
            self._show(found, "commit")
        if not found.under_way:
            found.begun = self.machine.now
            if found.timeout < NEVER:
                self.machine.later(found.timeout, self._expire, ident, epoch, found.begun)
        if partition not in found.under_way:
            found.under_way.append(partition)
            self._written_by[ident][partition] = None
        return partition.append(Record(0, int(self.machine.wall * 1000), key, value, None, producer=found.producer))

    def end_transaction(self, ident: str, epoch: int, *, commit: bool) -> None:
        """The transaction has ended; readers see that a little later. Raises FencedProducer."""
        found = self._checked(ident, epoch)
        if not found.under_way or found.ending:
            return  # it is asked again
        if commit:
            found.ending = True
            self.machine.later(self._chance.uniform(0.001, 0.03), self._show_if_ending, ident, epoch)
        else:
            self._show(found, "abort")

    def _show_if_ending(self, ident: str, epoch: int) -> None:
        found = self._transactions.get(ident)
        if found is not None and found.ending and found.epoch == epoch:
            if self.away:
                self.machine.later(0.1, self._show_if_ending, ident, epoch)
            else:
                self._show(found, "commit")

    def _checked(self, ident: str, epoch: int) -> Transactions:
        found = self._transactions.get(ident)
        if found is None or found.epoch != epoch:
            raise FencedProducer(ident)
        return found

    def _expire(self, ident: str, epoch: int, begun: float) -> None:
        """A transaction has been open for too long."""
        found = self._transactions.get(ident)
        if found is not None and found.under_way and not found.ending and (found.epoch, found.begun) == (epoch, begun):
            self._show(found, "abort")
            found.epoch += 1

    def _show(self, found: Transactions, how: Literal["commit", "abort"]) -> None:
        for partition in found.under_way:
            at = int(self.machine.wall * 1000)
            if how == "commit":
                partition.committed.append((partition.end, found.begun))
            partition.append(Record(0, at, None, None, None, producer=found.producer, control=how))
        found.under_way, found.ending = [], False

    # --- what goes wrong -----------------------------------------------------------------------------------------

    def lose_power(self) -> None:
        """What was not on disk is gone, of each partition as much as chance has it."""
        for partition in self.each():
            partition.unwritable_until = 0.0
            partition.waiting.clear()
            if partition.end > partition.on_disk:
                partition.cut(self._kept(partition))
        for ident, found in list(self._transactions.items()):
            self._recover(ident, found)

    def _kept(self, partition: Partition) -> int:
        lost = self._chance.choice([0, self._chance.randint(0, 12), partition.end])
        return max(partition.on_disk, partition.end - lost)

    def _recover(self, ident: str, found: Transactions) -> None:
        """The coordinator has read what is left of its own log; that of an embedded Kafka was removed."""
        found.under_way = [partition for partition in self.each() if found.producer in partition.open]
        found.ending, found.begun = False, 0.0
        match "forgotten" if self._embedded else self._chance.choice(["abort", "commit", "complete", "forgotten"]):
            case "commit":
                self._show(found, "commit")
            case "complete" if all(not partition.topic.flushed for partition in found.under_way):
                found.under_way = []  # so it takes it: the next one of this producer ends it as well
            case "forgotten":
                del self._transactions[ident]
            case _:
                pass  # it is aborted when the id has its next producer

    def abort_hanging(self, partition: Partition) -> None:
        """Ends what is open in a partition and the coordinator knows nothing of."""
        known = {found.producer for found in self._transactions.values() if partition in found.under_way}
        for producer in partition.open.keys() - known:
            at = int(self.machine.wall * 1000)
            partition.append(Record(0, at, None, None, None, producer=producer, control="abort"))

    def compact(self) -> None:
        """Compacts every topic that is."""
        for topic in self.topics.values():
            if topic.compacted:
                for partition in topic.partitions:
                    partition.compact(int(self.machine.wall * 1000))

    def widen(self, partitions: int) -> None:
        """More partitions."""
        for name in self._per_partition:
            self.topics[name].widen(partitions)

    def each(self) -> Iterable[Partition]:
        """All partitions."""
        return (partition for topic in self.topics.values() for partition in topic.partitions)

    def _write_to_disk(self) -> None:
        for partition in self.each():
            if partition.on_disk < partition.end and self._disk_chance.random() < DISK_PART:
                partition.on_disk = partition.end
        self.machine.later(DISK_SECONDS, self._write_to_disk)
