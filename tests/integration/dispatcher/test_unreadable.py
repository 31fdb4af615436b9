"""Garbage in every topic that the dispatcher reads: it is named, and everything else goes its way."""

from __future__ import annotations

import os

import pytest
from confluent_kafka import Producer
from structlog.testing import capture_logs

from penstock.contract import topics
from penstock.dispatcher.cursors.cursor_store import CursorStore, cursor_key, payload_key, tail_key
from penstock.kafka.transactions import Entry
from tests.integration.dispatcher.dispatcher_stage import Headers, Stage, Subscribe
from tests.running import kafka_access
from tests.waiting import until

GARBAGE = [
    (topics.CURSORS, b"\xff/0", b"{}"),
    (topics.CURSORS, b"stranger", b"{}"),
    (topics.CURSORS, b"route/0", b'{"next": "seven"}'),
    (topics.CURSORS, b"payload/route/0/1", b"\x00"),
    (topics.ROUTES, b"\xfe", b"{}"),
    (topics.ROUTES, b"route/garbage", b"\xff\xff"),
    (topics.ROUTES, b"version", b'{"version": "newest"}'),
    (topics.ROUTES, b"version", b'{"version": ' + b"9" * 400 + b"}"),
    (topics.REPORTS, b"\xff", b"{}"),
    (topics.MATCHED, b"\xff", b"no headers"),
]


@pytest.mark.timeout(300)
async def test_garbage_harms_nothing_else(stage: Stage, subscribe: Subscribe) -> None:
    subscriber = await subscribe()
    route = stage.trigger(subscriber.endpoint)
    stage.publish(route)
    producer = Producer(kafka_access(stage.settings))
    for topic, key, value in GARBAGE:
        producer.produce(topic, key=key, value=value, partition=0)
    for origin in (b"-1", b"9" * 5000, b"9" * 19, b"one", b"\xff"):
        headers: Headers = [("penstock_origin", origin), ("penstock_routes", route.uid.encode())]
        producer.produce(topics.MATCHED, value=b"", headers=headers, partition=0)
    producer.produce(topics.MATCHED, headers=[("penstock_origin", b"1"), ("penstock_routes", b"\xff")], partition=0)
    producer.flush(60)
    with capture_logs() as lines:
        async with stage.task():
            ids = stage.match(route, count=3)
            stage.publish(route)
            await until(lambda: set(subscriber.ids) >= set(ids), "the events after the garbage")
    found = [line for line in lines if line["event"] == "a record cannot be read and is skipped"]
    named = {(line["topic"], line["key"]) for line in found}
    readable = {(topic, key.decode("utf-8", "backslashreplace")) for topic, key, _ in GARBAGE}
    assert named >= {place for place in readable if place[0] != topics.REPORTS}
    assert all(line["offset"] is not None and line["problem"] for line in found)
    assert len([line for line in found if line["topic"] == topics.MATCHED]) == 7
    for topic, key, _ in GARBAGE:  # so that the tests after this one find nothing of it
        producer.produce(topic, key=key, value=None, partition=0)
    producer.flush(60)


@pytest.mark.timeout(300)
async def test_a_route_whose_record_cannot_be_read_goes_on_where_it_was_once_it_can(
    stage: Stage, subscribe: Subscribe
) -> None:
    subscriber = await subscribe()
    route = stage.trigger(subscriber.endpoint)
    stage.publish(route)
    async with stage.task():
        ids = stage.match(route, count=3)
        await until(lambda: set(subscriber.ids) == set(ids), "the events before", 60)
    stage.publish()
    stage.spoil(route)
    stage.publish()
    read = stage.tail(0)
    async with stage.task():
        ids += stage.match(route, count=3)
        await until(lambda: stage.tail(0) >= read + 3, "the tail behind the events that wait", 60)
        assert len(subscriber.ids) == 3
        stage.publish(route)
        await until(lambda: len(subscriber.ids) >= 6, "the events that waited", 60)
    assert sorted(subscriber.ids) == sorted(ids)  # none twice: it was remembered what the route had


@pytest.mark.timeout(300)
def test_a_record_that_kafka_refuses_is_left_out_and_the_rest_is_written(stage: Stage) -> None:
    store = CursorStore(stage.settings, 1)
    store.open()
    tail = Entry(topics.CURSORS, tail_key(1), b"41")
    too_large = Entry(topics.CURSORS, payload_key("big", 1, 1), os.urandom(stage.settings.max_record_bytes * 3 // 2))
    far_too_large = Entry(topics.ATTEMPTS, "big", os.urandom(17 * 1024 * 1024))
    with capture_logs() as lines:
        store.commit([Entry(topics.CURSORS, cursor_key("small", 1), b"{}"), too_large, far_too_large, tail])
        store.commit(
            [Entry(topics.CURSORS, payload_key("big", 1, 1), too_large.value), Entry(topics.CURSORS, "later/1", b"{}")]
        )
    written = stage.table(topics.CURSORS)
    assert {written[key] for key in ("small/1", "later/1")} == {b"{}"}
    assert written["tail/1"] == b"41"
    assert too_large.key not in written
    refused = [line["key"] for line in lines if line["event"] == "Kafka refuses a record, and it is left out"]
    assert sorted(refused) == sorted([too_large.key, far_too_large.key])


@pytest.mark.timeout(300)
def test_the_tail_is_not_written_without_a_cursor_that_kafka_refuses(stage: Stage) -> None:
    store = CursorStore(stage.settings, 1)
    store.open()
    store.commit([Entry(topics.CURSORS, tail_key(1), b"50")])
    cursor = Entry(topics.CURSORS, cursor_key("huge", 1), os.urandom(stage.settings.max_record_bytes * 3 // 2))
    store.commit([cursor, Entry(topics.CURSORS, tail_key(1), b"60")])
    store.commit([Entry(topics.CURSORS, cursor_key("other", 1), b"{}")])
    assert stage.table(topics.CURSORS)[tail_key(1)] == b"50"
    store.commit([Entry(topics.CURSORS, cursor_key("huge", 1), b"{}")])
    assert stage.table(topics.CURSORS)[tail_key(1)] == b"60"
    store.commit([Entry(topics.CURSORS, key, None) for key in ("huge/1", "other/1", tail_key(1))])
    store.close()
