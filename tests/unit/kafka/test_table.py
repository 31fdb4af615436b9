"""Kafka forgets that something was deleted. A follower that was away meanwhile must not keep it for ever."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from functools import partial

import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, TopicPartition

from penstock.contract.routes import Record, Target, Version, encode, key_of
from penstock.contract.snapshot import Snapshot
from penstock.kafka import clients
from penstock.kafka.table import ASK_SECONDS, UNSURE_SECONDS, SnapshotFollower, TableFollower
from penstock.settings import Settings
from tests.unit.kafka.kafka_doubles import MessageDouble
from tests.waiting import eventually

END = MessageDouble(problem=KafkaError(KafkaError._PARTITION_EOF))


class CompactedTopic:
    """A partition as a consumer sees it, with a clock."""

    def __init__(self) -> None:
        self.records: dict[int, tuple[str, bytes | None]] = {}
        self.end = 0
        self.away = False
        self.now = 1000.0
        self.beginnings = 0
        """How often it was read from its beginning."""
        self._questions = 0
        self._at: int | None = None
        self._told_end = -1
        self._lock = threading.Lock()

    def write(self, *records: tuple[str, bytes | None], transaction: bool = True) -> None:
        with self._lock:
            for record in records:
                self.records[self.end] = record
                self.end += 1
            self.end += transaction

    def compact(self, *, deletions: bool = True) -> None:
        """Leaves the newest record of each key, and of those that were deleted nothing."""
        with self._lock:
            newest = {key: offset for offset, (key, _) in sorted(self.records.items())}
            self.records = {
                offset: (key, value)
                for offset, (key, value) in self.records.items()
                if newest[key] == offset and (value is not None or not deletions)
            }

    def assign(self, places: list[TopicPartition]) -> None:
        with self._lock:
            [place] = places
            self.beginnings += place.offset == OFFSET_BEGINNING
            self._at, self._told_end = max(0, place.offset), -1

    def poll(self, _: float) -> MessageDouble | None:
        with self._lock:
            if not self.away and self._at is not None:
                for offset in sorted(self.records):
                    if offset >= self._at:
                        self._at = offset + 1
                        key, value = self.records[offset]
                        return MessageDouble(offset, key.encode(), value)
                if self._told_end != self.end:
                    self._told_end = self.end
                    return END
        time.sleep(0.001)
        return None

    def get_watermark_offsets(self, *_: object, **__: object) -> tuple[int, int]:
        if self.away:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        self._questions += 1
        return 0, self.end

    def was_asked(self, times: int) -> bool:
        return self._questions == times

    def list_topics(self, *_: object) -> None:
        """It is known."""

    def close(self) -> None:
        """Nothing is held."""


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> CompactedTopic:
    made = CompactedTopic()
    monkeypatch.setattr(clients, "consumer", lambda *_, **__: made)
    return made


def broker(name: str) -> Target:
    return Target(name, "Broker", "shop", name, (f"/shop/{name}",))


def publish(topic: CompactedTopic, version: Version, *changes: Record | str) -> None:
    """Writes a change of the routes; text is the key of what is deleted."""
    records = [(one, None) if isinstance(one, str) else (key_of(one), encode(one)) for one in (*changes, version)]
    topic.write(*records)


class Following:
    """A SnapshotFollower at work."""

    def __init__(self, topic: CompactedTopic) -> None:
        self.seen: list[Snapshot] = []
        self._failures: list[BaseException] = []
        self.follower = SnapshotFollower(Settings(), self.seen.append, self._failures.append, clock=lambda: topic.now)
        self.follower.start()
        eventually(self.follower.caught_up.is_set, 10, every=0.001)

    def until_version(self, version: int) -> set[str]:
        eventually(lambda: self.seen and self.seen[-1].version == version, 10, every=0.001)
        return set(self.seen[-1].targets)

    def end(self) -> None:
        self.follower.stop()
        assert self._failures == []


@pytest.fixture
def following(topic: CompactedTopic) -> Iterator[Following]:
    publish(topic, Version(1, targets=2), broker("kept"), broker("deleted"))
    made = Following(topic)
    yield made
    made.end()


def test_a_broker_whose_deletion_was_missed_is_not_there_any_more(topic: CompactedTopic, following: Following) -> None:
    """Without the other reading, an ingress would answer 202 for it until it is started again."""
    topic.away = True
    publish(topic, Version(2, targets=1), "target/deleted")
    publish(topic, Version(3, targets=2), broker("new"))
    topic.compact()
    topic.away = False
    assert following.until_version(3) == {"kept", "new"}
    assert [snapshot.version for snapshot in following.seen] == [1, 3]
    assert {"kept", "deleted"} not in [set(snapshot.targets) for snapshot in following.seen[1:]]


def test_a_deletion_that_is_seen_needs_no_other_reading(topic: CompactedTopic, following: Following) -> None:
    publish(topic, Version(2, targets=1), "target/deleted")
    topic.compact(deletions=False)
    assert following.until_version(2) == {"kept"}
    assert topic.beginnings == 1


def test_a_version_that_counts_too_few_is_read_again_once_and_then_believed(
    topic: CompactedTopic, following: Following
) -> None:
    publish(topic, Version(2, targets=1))
    assert following.until_version(2) == {"kept", "deleted"}
    publish(topic, Version(3, targets=1))
    assert following.until_version(3) == {"kept", "deleted"}
    assert topic.beginnings == 2


class Table:
    """What a TableFollower has handed over, of a topic that nothing counts."""

    def __init__(self, topic: CompactedTopic) -> None:
        self.values: dict[str, bytes] = {}
        self.agains = self.ends = 0
        self._failures: list[BaseException] = []
        self.follower = TableFollower(
            Settings(),
            "topic",
            self._apply,
            self._at_end,
            self._failures.append,
            again=self._read_again,
            clock=lambda: topic.now,
        )
        self.follower.start()
        eventually(lambda: self.ends, 10, every=0.001)

    def _apply(self, key: str, value: bytes | None) -> None:
        self.values.pop(key, None)
        if value is not None:
            self.values[key] = value

    def _at_end(self) -> None:
        self.ends += 1

    def _read_again(self) -> None:
        self.agains += 1

    def end(self) -> None:
        self.follower.stop()
        assert self._failures == []


@pytest.fixture
def table(topic: CompactedTopic) -> Iterator[Table]:
    topic.write(("ack/router", b"1"), ("standing/gone", b"1"), transaction=False)
    made = Table(topic)
    yield made
    made.end()


def lose_sight(topic: CompactedTopic, seconds: float) -> None:
    """The follower is cut off for so long; meanwhile a key is deleted and another one comes."""
    topic.away = True
    topic.write(("standing/gone", None), ("standing/new", b"1"), ("ack/router", b"2"), transaction=False)
    topic.compact(deletions=seconds > 3600)
    topic.now += seconds
    topic.away = False


def test_what_was_deleted_while_a_follower_was_away_for_long_is_handed_over_as_deleted(
    topic: CompactedTopic, table: Table
) -> None:
    lose_sight(topic, 7200)
    eventually(lambda: table.ends == 2, 10, every=0.001)
    assert table.values == {"ack/router": b"2", "standing/new": b"1"}
    assert (table.agains, topic.beginnings) == (1, 2)


def test_a_short_absence_needs_no_other_reading(topic: CompactedTopic, table: Table) -> None:
    lose_sight(topic, UNSURE_SECONDS - 1)
    eventually(lambda: table.values.get("ack/router") == b"2", 10, every=0.001)
    assert (set(table.values), topic.beginnings) == ({"ack/router", "standing/new"}, 1)


def test_a_topic_in_which_nothing_happens_is_not_read_again_because_of_that(
    topic: CompactedTopic, table: Table
) -> None:
    topic.write(("ack/router", b"2"))
    eventually(lambda: table.values["ack/router"] == b"2", 10, every=0.001)
    for questions in range(1, 20):
        topic.now += ASK_SECONDS + 1
        eventually(partial(topic.was_asked, questions), 10, every=0.001)
    topic.write(("ack/router", b"3"))
    eventually(lambda: table.values["ack/router"] == b"3", 10, every=0.001)
    assert topic.beginnings == 1
