"""The writer of the routes on a real Kafka: garbage in the topic, a change as a whole, and a second control plane."""

from __future__ import annotations

import os
import threading

import pytest
from confluent_kafka import Producer
from structlog.testing import capture_logs

from penstock.contract import topics
from penstock.contract.reports import Ack
from penstock.contract.routes import Target, Version, encode, key_of
from penstock.contract.snapshot import Snapshot
from penstock.kafka.reports import Reporter
from penstock.kafka.routes import NotTaken, PublisherSuperseded, RoutesTopic
from penstock.kafka.table import SnapshotFollower, TableFollower
from penstock.settings import Settings
from tests.running import kafka_access
from tests.waiting import eventually

TARGET = Target("log-room", "Broker", "ns", "b")
GARBAGE = {b"\xfe": b"{}", b"route/garbage": b"\xff", b"target/log-room": b"[]", b"version": b'{"version": -1}'}


@pytest.fixture
def topic(kafka: Settings) -> RoutesTopic:
    found = RoutesTopic(kafka)
    found.read()
    return found


def followed(kafka: Settings) -> tuple[SnapshotFollower, list[Snapshot], list[BaseException]]:
    seen, failures = list[Snapshot](), list[BaseException]()
    follower = SnapshotFollower(kafka, seen.append, failures.append)
    follower.start()
    eventually(follower.caught_up.is_set)
    return follower, seen, failures


def test_the_older_of_two_control_planes_ends(kafka: Settings, topic: RoutesTopic) -> None:
    version = topic.read().version
    topic.write([(key_of(TARGET), encode(TARGET))], encode(Version(version + 1, targets=1)))
    younger = RoutesTopic(kafka)
    stored = younger.read()
    assert (stored.version, stored.records[key_of(TARGET)], stored.complete) == (version + 1, TARGET, True)
    younger.write([], encode(Version(version + 2, targets=1)))
    with pytest.raises(PublisherSuperseded, match="another control plane"):
        topic.write([], encode(Version(version + 3, targets=1)))
    assert RoutesTopic(kafka).read().version == version + 2


def test_a_change_that_kafka_refuses_leaves_no_trace(kafka: Settings, topic: RoutesTopic) -> None:
    version = topic.read().version
    follower, seen, failures = followed(kafka)
    large = os.urandom(kafka.max_record_bytes * 2)
    with pytest.raises(NotTaken, match="target/large"):
        topic.write([("target/small", encode(TARGET)), ("target/large", large)], encode(Version(version + 1)))
    topic.write([], encode(Version(version + 2)))
    eventually(lambda: seen[-1].version == version + 2)
    follower.stop()
    assert failures == []
    assert "target/small" not in topic.read().records


def test_garbage_among_the_routes_is_passed_over(kafka: Settings, topic: RoutesTopic) -> None:
    version = topic.read().version
    follower, seen, failures = followed(kafka)
    producer = Producer(kafka_access(kafka))
    topic.write([(key_of(TARGET), encode(TARGET))], encode(Version(version + 1, targets=1)))
    with capture_logs() as lines:
        for key, value in GARBAGE.items():
            producer.produce(topics.ROUTES, key=key, value=value)
        producer.flush(10)
        topic.write([], encode(Version(version + 2, targets=1)))
        eventually(lambda: seen[-1].version == version + 2)
        stored = topic.read()
    follower.stop()
    assert seen[-1].targets["log-room"] == TARGET
    assert (stored.version, stored.complete, failures) == (version + 2, True, [])
    assert (set(stored.unreadable), stored.routes_missing) == ({"route/garbage", "target/log-room"}, False)
    assert not seen[-1].has_ended("garbage")
    named = {line["key"] for line in lines if line["event"] == "a record cannot be read and is skipped"}
    assert named == {key.decode("utf-8", "backslashreplace") for key in GARBAGE}
    for key in (*GARBAGE, b"target/log-room"):
        if key != b"version":
            producer.produce(topics.ROUTES, key=key, value=None)
    producer.flush(10)


def test_records_that_cannot_be_read_are_told_as_they_come(kafka: Settings, topic: RoutesTopic) -> None:
    producer = Producer(kafka_access(kafka))
    for key in (b"target/mended", b"target/before"):
        producer.produce(topics.ROUTES, key=key, value=b"{")
    producer.produce(topics.ROUTES, key=b"target/mended", value=None)
    producer.flush(10)
    found, failures = list[str](), list[BaseException]()
    watch = topic.watch_unreadable(found.append, failures.append)
    eventually(lambda: "target/before" in found)
    producer.produce(topics.ROUTES, key=b"target/after", value=b"{")
    producer.flush(10)
    eventually(lambda: "target/after" in found)
    watch.stop()
    assert "target/mended" not in found
    assert failures == []
    for key in (b"target/before", b"target/after"):
        producer.produce(topics.ROUTES, key=key, value=None)
    producer.flush(10)


def test_a_route_of_which_nothing_is_left_is_missed(kafka: Settings, topic: RoutesTopic) -> None:
    version = topic.read().version
    topic.write([], encode(Version(version + 1, routes=100)))
    follower, seen, _ = followed(kafka)
    follower.stop()
    assert (topic.read().routes_missing, seen[-1].has_ended("any")) == (True, False)
    topic.write([], encode(Version(version + 2)))
    assert not topic.read().routes_missing


def test_the_retained_events_are_told(kafka: Settings, topic: RoutesTopic) -> None:
    retained = topic.retained_events()
    assert len(retained) == kafka.partitions
    assert all(0 <= kept.first <= kept.end for kept in retained)


def test_garbage_among_the_reports_is_passed_over(kafka: Settings) -> None:
    from penstock.contract import reports

    seen, reached, failures = list[object](), threading.Event(), list[BaseException]()

    def apply(key: str, value: bytes | None) -> None:
        seen.append(None if value is None else reports.decode(key, value))

    follower = TableFollower(kafka, topics.REPORTS, apply, reached.set, failures.append)
    follower.start()
    assert reached.wait(60)
    producer = Producer(kafka_access(kafka))
    garbage = {b"\xff": b"{}", b"ack/ingress/x": b"{", b"loss/r/0": b'{"first": "one"}', b"ack/": b"\x00"}
    with capture_logs() as lines:
        for key, value in garbage.items():
            producer.produce(topics.REPORTS, key=key, value=value)
        producer.flush(10)
        reporter = Reporter(kafka, "ingress", "log-room", failures.append)
        reporter.ack(7)
        eventually(lambda: any(isinstance(found, Ack) and found.instance == "log-room" for found in seen))
        reporter.close()
    follower.stop()
    assert failures == []
    named = {line["key"] for line in lines if line["event"] == "a record cannot be read and is skipped"}
    assert named == {key.decode("utf-8", "backslashreplace") for key in garbage}
    for key in garbage:
        producer.produce(topics.REPORTS, key=key, value=None)
    producer.flush(10)
