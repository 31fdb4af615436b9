"""Replays on a real Kafka: windows, kills, deletion, and what was given up."""

from __future__ import annotations

import asyncio
import itertools
import signal
import time
from collections import Counter

import msgspec
import pyarrow as pa
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from deltalake import CommitProperties, Transaction, write_deltalake

from penstock.contract import topics
from penstock.contract.routes import Delivery, Endpoint, Replay, Route
from penstock.history.schema import arrow
from penstock.history.schema.columns import DAY, EVENTS, VERSION, VERSION_ID
from penstock.history.schema.rows import event_row
from penstock.kafka.ranges import RangeReader
from tests.integration.dispatcher.dispatcher_stage import OK, Request, Stage, Subscribe
from tests.running import kafka_access
from tests.waiting import until

_NUMBERS = itertools.count(1)
SLOW_SECONDS = 60


class Log:
    """`penstock.events`, as the ingress fills it."""

    def __init__(self, stage: Stage) -> None:
        self._address = kafka_access(stage.settings)
        self.partitions = stage.settings.partitions

    def ends(self) -> tuple[int, ...]:
        consumer = Consumer({**self._address, "group.id": "ends"})
        try:
            places = [TopicPartition(topics.EVENTS, number) for number in range(self.partitions)]
            return tuple(consumer.get_watermark_offsets(place, timeout=30)[1] for place in places)
        finally:
            consumer.close()

    def accept(self, count: int, target: str = "broker-uid") -> list[str]:
        producer = Producer(self._address)
        ids = [f"stored{next(_NUMBERS)}" for _ in range(count)]
        for number, ident in enumerate(ids):
            attributes = {"specversion": "1.0", "id": ident, "source": "/s", "type": f"t{number % 2}"}
            headers: list[tuple[str, str | bytes | None]] = [
                *((f"ce_{name}", value.encode()) for name, value in attributes.items()),
                ("penstock_target", target.encode()),
            ]
            producer.produce(topics.EVENTS, value=b"{}", headers=headers, partition=number % self.partitions)
        producer.flush(30)
        producer.close()
        return ids


def replay_of(
    subscriber: Endpoint, start: tuple[int, ...], end: tuple[int, ...], *, retry: int = 0, **changes: object
) -> Route:
    name = f"replay{next(_NUMBERS)}-{time.time_ns()}"
    replay = msgspec.structs.replace(Replay("Trigger", end=end), **changes)
    delivery = Delivery(retry=retry)
    return Route(
        name, "Replay", "team", name, "broker-uid", subscriber=subscriber, start=start, delivery=delivery, replay=replay
    )


def progress(stage: Stage, route: Route) -> dict[str, int]:
    """What was told of a Replay, added up over its partitions."""
    told = [
        msgspec.json.decode(v) for k, v in stage.table(topics.REPORTS).items() if k.startswith(f"replay/{route.uid}/")
    ]
    return {
        name: sum(int(one[name]) for one in told) for name in ("counted", "failed", "under_way", "missing", "finished")
    }


async def test_a_window_is_delivered_once_more_and_told_of(stage: Stage, subscribe: Subscribe) -> None:
    subscriber, log = await subscribe(), Log(stage)
    log.accept(10)
    start = log.ends()
    ids = log.accept(50)
    log.accept(5, target="another")
    end = log.ends()
    log.accept(10)
    route = replay_of(subscriber.endpoint, start, end, filters=[{"exact": {"type": "t1"}}])
    stage.publish(route)
    async with stage.task():
        await until(lambda: len(subscriber.requests) >= 25, "all of them", SLOW_SECONDS)
        finished = {"counted": 25, "failed": 0, "under_way": 0, "missing": 0, "finished": stage.settings.partitions}
        await until(lambda: progress(stage, route) == finished, "that it is told", SLOW_SECONDS)
    assert sorted(subscriber.ids) == sorted(ids[1::2])
    assert {request.headers["ce-penstockreplay"] for request in subscriber.requests} == {route.name}


async def test_nothing_is_missing_when_the_task_is_killed_in_the_middle(stage: Stage, subscribe: Subscribe) -> None:
    subscriber, log = await subscribe(), Log(stage)
    start = log.ends()
    ids = log.accept(600)
    route = replay_of(subscriber.endpoint, start, log.ends(), rate=200.0)
    live = stage.trigger(subscriber.endpoint)
    stage.publish(route, live)
    process = stage.process()
    try:
        await until(lambda: len(subscriber.requests) >= 150, "some of them", SLOW_SECONDS)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert len(set(subscriber.ids)) < len(ids), "the test must kill the task before it is through"
    async with stage.task():
        matched = stage.match(live, count=20)
        await until(
            lambda: set(ids) | set(matched) <= set(subscriber.ids), "all of them, and the live ones", SLOW_SECONDS
        )
        await until(lambda: progress(stage, route)["finished"] == stage.settings.partitions, "the end", SLOW_SECONDS)
    again = sum(count - 1 for count in Counter(subscriber.ids).values())
    print(f"{again} of {len(ids)} arrived again")
    assert again < len(ids) / 2
    assert progress(stage, route)["counted"] == len(ids)


async def test_a_replay_that_is_deleted_stops_and_leaves_nothing(stage: Stage, subscribe: Subscribe) -> None:
    subscriber, log = await subscribe(), Log(stage)
    start = log.ends()
    count = 20_000  # more than can be sent at this rate until somebody has seen that it began and deleted it
    log.accept(count)
    route = replay_of(subscriber.endpoint, start, log.ends(), rate=50.0)
    stage.publish(route)
    async with stage.task():
        await until(lambda: len(subscriber.requests) >= 20, "some of them", SLOW_SECONDS)
        await until(lambda: progress(stage, route)["counted"] > 0, "that it is told", SLOW_SECONDS)
        stage.publish()
        await until(lambda: not progress(stage, route)["counted"], "that it is no longer told", SLOW_SECONDS)
        await asyncio.sleep(1)  # what was under way arrives
        stopped = len(subscriber.requests)
        assert stopped < count
        await asyncio.sleep(1)
    assert len(subscriber.requests) == stopped
    assert not [key for key in stage.table(topics.CURSORS) if route.uid in key]


async def test_what_was_given_up_is_delivered_once_more(stage: Stage, subscribe: Subscribe) -> None:
    repaired = False

    def react(_: Request) -> tuple[int, dict[str, str], bytes]:
        return OK if repaired else (500, {}, b"broken")

    subscriber, log = await subscribe(react), Log(stage)
    start = log.ends()
    ids = log.accept(20)
    end = log.ends()
    failing = replay_of(subscriber.endpoint, start, end)
    stage.publish(failing)
    async with stage.task():
        await until(lambda: progress(stage, failing)["failed"] == len(ids), "that all failed", SLOW_SECONDS)
        repaired = True
        subscriber.requests.clear()
        redrive = replay_of(subscriber.endpoint, start, end, given_up_by=failing.uid, reason="http status 500")
        other = replay_of(subscriber.endpoint, start, end, given_up_by=failing.uid, reason="timed out")
        stage.publish(failing, redrive, other)
        await until(lambda: progress(stage, redrive)["finished"] == stage.settings.partitions, "the end", SLOW_SECONDS)
        await until(lambda: progress(stage, other)["finished"] == stage.settings.partitions, "the end", SLOW_SECONDS)
    assert sorted(subscriber.ids) == sorted(ids)
    assert progress(stage, redrive)["counted"] == len(ids)
    assert progress(stage, other)["counted"] == 0


def keep_in_table(stage: Stage, start: tuple[int, ...], end: tuple[int, ...]) -> None:
    """Has the history's table hold what Kafka forgets then."""
    reader = RangeReader(stage.settings)
    chunks = list(reader.read(topics.EVENTS, dict(enumerate(start)), dict(enumerate(end))))
    reader.close()
    rows = [row for records in chunks for record in records if (row := event_row(record)) is not None]
    properties = CommitProperties(app_transactions=[Transaction(VERSION_ID, VERSION)])
    place = f"{stage.settings.history_root}/{EVENTS.name}"
    table = pa.Table.from_batches([arrow.batch_of(EVENTS, rows)])
    write_deltalake(place, table, mode="append", partition_by=[DAY], commit_properties=properties)
    admin = AdminClient(kafka_access(stage.settings))
    places = [TopicPartition(topics.EVENTS, number, offset) for number, offset in enumerate(end)]
    for deleted in admin.delete_records(places).values():
        deleted.result(30)


async def test_what_kafka_has_forgotten_comes_from_the_table(stage: Stage, subscribe: Subscribe) -> None:
    subscriber, log = await subscribe(), Log(stage)
    start = log.ends()
    old = log.accept(30)
    keep_in_table(stage, start, log.ends())
    recent = log.accept(10)
    route = replay_of(subscriber.endpoint, start, log.ends())
    stage.publish(route)
    async with stage.task(history=True):
        await until(lambda: progress(stage, route)["finished"] == stage.settings.partitions, "the end", SLOW_SECONDS)
    assert sorted(subscriber.ids) == sorted([*old, *recent])
    assert progress(stage, route)["missing"] == 0
    again = replay_of(subscriber.endpoint, start, log.ends())
    stage.publish(again)
    async with stage.task(history=False):
        await until(lambda: progress(stage, again)["finished"] == stage.settings.partitions, "the end", SLOW_SECONDS)
    assert (progress(stage, again)["counted"], progress(stage, again)["missing"]) == (len(recent), len(old))


async def test_the_past_of_a_trigger_comes_from_the_table_and_then_from_kafka_as_it_was(
    stage: Stage, subscribe: Subscribe
) -> None:
    subscriber, log = await subscribe(), Log(stage)
    start = log.ends()
    old = log.accept(30)
    keep_in_table(stage, start, log.ends())
    recent = log.accept(10)
    own = stage.trigger(subscriber.endpoint, start=log.ends())
    past = msgspec.structs.replace(
        replay_of(subscriber.endpoint, start, log.ends(), past_of=own.uid), name=own.name, max_in_flight=1
    )
    stage.publish(own, past)
    async with stage.task(history=True):
        live = stage.match(own, count=3)
        await until(lambda: progress(stage, past)["finished"] == stage.settings.partitions, "the end", SLOW_SECONDS)
        await until(lambda: set(live) <= set(subscriber.ids), "the live ones", SLOW_SECONDS)
    assert Counter(subscriber.ids) == Counter([*old, *recent, *live])
    assert not [request for request in subscriber.requests if "ce-penstockreplay" in request.headers]
    came = [ident for ident in subscriber.ids if ident not in live]
    for number in range(stage.settings.partitions):
        in_partition = old[number :: stage.settings.partitions] + recent[number :: stage.settings.partitions]
        assert [ident for ident in came if ident in in_partition] == in_partition
    told = stage.attempts(own)
    assert {(row["kind"], row["name"]) for row in told} == {("Trigger", own.name)}
    assert len(told) == len(old) + len(recent) + len(live)
