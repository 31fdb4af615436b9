"""A pause that outlasts what a real Kafka keeps: of the matched events, and of the events that the history has."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pytest
from confluent_kafka import OFFSET_END, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # re-exported without saying so
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from deltalake import CommitProperties, Transaction, write_deltalake

from penstock.contract import topics
from penstock.contract.routes import Delivery, Route
from penstock.dispatcher import dispatcher, task
from penstock.history.schema import arrow
from penstock.history.schema.columns import DAY, EVENTS, VERSION, VERSION_ID
from penstock.history.schema.rows import event_row
from penstock.kafka.ranges import RangeReader
from penstock.settings import Settings
from tests.integration.dispatcher.dispatcher_stage import Headers, Stage, Subscribe, Subscriber
from tests.running import kafka_access, running_kafka, with_held_ports
from tests.waiting import until

if TYPE_CHECKING:
    from penstock.engine.jars.jar_cache import Jars

KEYS = ("red", "green", "blue")
LIMITS: dict[str, Any] = {"catch_up_records": 50, "max_outstanding": 40, "max_in_flight": 4, "cursor_flush_ms": 20}
SLOW_SECONDS = 60


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory, jar_folders: Jars) -> Iterator[Stage]:
    """A Kafka of its own: what is removed from it nobody else misses."""
    settings = with_held_ports(Settings(data_dir=tmp_path_factory.mktemp("gap"), partitions=1, **LIMITS))
    with running_kafka(settings, jar_folders):
        stage = Stage(settings)
        yield stage
        stage.close()


class Log:
    """Both logs, as an ingress and a router fill them: every event is for every route, and comes to its true place."""

    def __init__(self, stage: Stage, *routes: Route) -> None:
        self._settings, self._routes = stage.settings, routes
        self._producer, self._admin = Producer(kafka_access(stage.settings)), AdminClient(kafka_access(stage.settings))
        self.end = self.begin = self._ends()
        self.ids: list[str] = []

    def _ends(self) -> int:
        reader = RangeReader(self._settings)
        try:
            return reader.retained(topics.EVENTS)[0].end
        finally:
            reader.close()

    def send(self, count: int) -> None:
        """Events with keys in turn."""
        for _ in range(count):
            event = {"specversion": "1.0", "id": f"g{self.end}", "source": "/s", "type": "wanted"}
            event["partitionkey"] = KEYS[self.end % len(KEYS)]
            headers: Headers = [(f"ce_{name}", value.encode()) for name, value in event.items()]
            headers.append(("penstock_target", b"broker-uid"))
            self._producer.produce(topics.EVENTS, partition=0, value=b"{}", headers=headers)
            uids = ",".join(route.uid for route in self._routes)
            added: Headers = [("penstock_origin", str(self.end).encode()), ("penstock_routes", uids.encode())]
            added.append(("penstock_generation", b"1"))
            self._producer.produce(topics.MATCHED, partition=0, value=b"{}", headers=[*headers, *added])
            self.ids.append(event["id"])
            self.end += 1
        assert self._producer.flush(30) == 0

    def remove(self, topic: str, before: int = OFFSET_END) -> None:
        """What retention would do, at once."""
        for removed in self._admin.delete_records([TopicPartition(topic, 0, before)]).values():
            removed.result(30)

    def keep(self, begin: int, end: int) -> None:
        """Has the history hold the events between these offsets."""
        reader = RangeReader(self._settings)
        records = [record for chunk in reader.read(topics.EVENTS, {0: begin}, {0: end}) for record in chunk]
        reader.close()
        rows = [row for record in records if (row := event_row(record)) is not None]
        transactions = [Transaction(VERSION_ID, VERSION), Transaction(EVENTS.position(0), end)]
        write_deltalake(
            f"{self._settings.history_root}/{EVENTS.name}",
            pa.Table.from_batches([arrow.batch_of(EVENTS, rows)]),
            mode="append",
            partition_by=[DAY],
            commit_properties=CommitProperties(app_transactions=transactions),
        )

    def limit(self, size: int) -> None:
        """So many bytes of events are to be kept. Kafka removes whole files, so that nothing goes for now."""
        entry = ConfigEntry("retention.bytes", str(size), incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topics.EVENTS, incremental_configs=[entry])
        for changed in self._admin.incremental_alter_configs([resource]).values():
            changed.result(30)


def has_all(subscriber: Subscriber, log: Log) -> Callable[[], bool]:
    return lambda: set(subscriber.ids) >= set(log.ids)


def losses(stage: Stage, route: Route) -> list[str]:
    return [key for key in stage.table(topics.REPORTS) if key.startswith(f"loss/{route.uid}/")]


def finished(stage: Stage, route: Route) -> set[int]:
    """What is written down as taken, and not as being delivered."""
    table = stage.table(topics.CURSORS)
    cursor = msgspec.json.decode(table[f"{route.uid}/0"])
    waiting = {int(key.rpartition("/")[2]) for key in table if key.startswith(f"delivery/{route.uid}/")}
    return set(range(cursor["next"])) - waiting - {one[0] for one in cursor.get("outstanding", ())}


def of_keys(ids: list[str]) -> dict[int, list[int]]:
    """When each event came for the first time, by key."""
    numbers = [int(ident[1:]) for ident in dict.fromkeys(ids)]
    return {key: [number for number in numbers if number % len(KEYS) == key] for key in range(len(KEYS))}


def paused(route: Route, *, held: bool) -> Route:
    return msgspec.structs.replace(route, paused=held)


async def routes_of(
    ground: Stage, subscribe: Subscribe, start: int
) -> tuple[Subscriber, Subscriber, Subscriber, list[Route]]:
    ordered, plain, other = [await subscribe() for _ in range(3)]
    policy = Delivery(retry=5, backoff_policy="linear", backoff_delay=0.1)
    fields: dict[str, Any] = {"start": (start,), "attributes": {"type": "wanted"}, "delivery": policy}
    first = ground.trigger(ordered.endpoint, ordering="key", **fields)
    return (
        ordered,
        plain,
        other,
        [first, ground.trigger(plain.endpoint, **fields), ground.trigger(other.endpoint, **fields)],
    )


async def all_but_the_paused(ground: Stage, log: Log, other: Subscriber, tail: int) -> None:
    """Runs a task until everybody else has had everything, and that is written down."""
    async with ground.task():
        await until(has_all(other, log), "that the other route has everything", SLOW_SECONDS)
        await until(lambda: ground.tail(0) == tail, "that the tail is written", SLOW_SECONDS)


def matched_end(ground: Stage) -> int:
    reader = RangeReader(ground.settings)
    try:
        return reader.retained(topics.MATCHED)[0].end
    finally:
        reader.close()


async def test_a_route_that_was_paused_for_longer_than_matched_events_are_kept_gets_each_once(
    ground: Stage, subscribe: Subscribe
) -> None:
    """A task is killed while it reads the gap; the events before it, and after it, come from the matched ones."""
    log = Log(ground)
    ordered, plain, other, routes = await routes_of(ground, subscribe, log.begin)
    log = Log(ground, *routes)
    ground.publish(*routes)
    log.send(30)
    async with ground.task():
        for subscriber in (ordered, plain, other):
            await until(has_all(subscriber, log), "the first events", SLOW_SECONDS)
        held = [paused(route, held=True) for route in routes[:2]]
        ground.publish(*held, routes[2])
        log.send(400)
        await until(has_all(other, log), "that the other route has everything", SLOW_SECONDS)
        await until(lambda: ground.tail(0) == matched_end(ground), "that the tail is written", SLOW_SECONDS)
    before = [len(subscriber.ids) for subscriber in (ordered, plain)]
    log.remove(topics.MATCHED)
    ground.publish(*routes)
    process = ground.process()
    try:
        await until(lambda: len(plain.ids) >= before[1] + 100, "some of the gap", SLOW_SECONDS)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert len(set(plain.ids)) < len(log.ids), "the test must kill the task before it is through"
    seen, done = len(plain.ids), finished(ground, routes[1])
    async with ground.task():
        log.send(50)
        for subscriber in (ordered, plain, other):
            await until(has_all(subscriber, log), "everything", SLOW_SECONDS)
        await until(lambda: ground.tail(0) == matched_end(ground), "that the tail is written", SLOW_SECONDS)
    for subscriber, route in zip((ordered, plain, other), routes, strict=True):
        assert set(subscriber.ids) == set(log.ids)
        assert losses(ground, route) == []
    for numbers in of_keys(ordered.ids).values():
        assert numbers == sorted(numbers)
    again = {int(ident[1:]) for ident in plain.ids[seen:]}
    print(f"{len(done)} of {len(log.ids)} were written down as done before the kill")
    assert not again & done, "what was under way comes again, and nothing else"
    assert max(Counter(other.ids).values()) == 1
    cursors = [msgspec.json.decode(ground.table(topics.CURSORS)[f"{route.uid}/0"]) for route in routes]
    assert not any("gap" in cursor for cursor in cursors)


async def test_what_kafka_has_forgotten_comes_from_the_history_and_a_loss_is_told_before(
    ground: Stage, subscribe: Subscribe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "WAITED_SECONDS", 0.0)
    monkeypatch.setattr(task, "FORESEE_SECONDS", 0.2)
    log = Log(ground)
    ordered, plain, other, routes = await routes_of(ground, subscribe, log.begin)
    log = Log(ground, *routes)
    held = [paused(route, held=True) for route in routes[:2]]
    ground.publish(*held, routes[2])
    log.send(300)
    await all_but_the_paused(ground, log, other, matched_end(ground))

    def warned(route: Route) -> bool:
        told = ground.table(topics.REPORTS).get(f"standing/{route.uid}/dispatcher-0")
        return told is not None and bool(msgspec.json.decode(told).get("expiring"))

    log.limit(10_000)
    async with ground.task(history=True):
        await until(lambda: all(map(warned, routes[:2])), "a warning", SLOW_SECONDS)
        assert not warned(routes[2])
        log.keep(log.begin, log.end - 50)
        await until(lambda: not any(map(warned, routes[:2])), "that the history makes up for it", SLOW_SECONDS)
    log.remove(topics.MATCHED)
    log.remove(topics.EVENTS, log.begin + 200)
    ground.publish(*routes)
    async with ground.task(history=True):
        log.send(20)
        for subscriber in (ordered, plain, other):
            await until(has_all(subscriber, log), "everything", SLOW_SECONDS)
    for subscriber, route in zip((ordered, plain, other), routes, strict=True):
        assert Counter(subscriber.ids) == Counter(log.ids), "each once"
        assert losses(ground, route) == []
    for numbers in of_keys(ordered.ids).values():
        assert numbers == sorted(numbers)


async def test_what_is_gone_from_everywhere_is_reported_with_its_offsets(ground: Stage, subscribe: Subscribe) -> None:
    log = Log(ground)
    _, plain, other, routes = await routes_of(ground, subscribe, log.begin)
    log = Log(ground, *routes[1:])
    ground.publish(paused(routes[1], held=True), routes[2])
    log.send(100)
    await all_but_the_paused(ground, log, other, matched_end(ground))
    log.remove(topics.MATCHED)
    log.remove(topics.EVENTS, log.begin + 60)
    ground.publish(*routes[1:])
    async with ground.task(history=False):
        await until(lambda: set(plain.ids) >= set(log.ids[60:]), "what is left", SLOW_SECONDS)
        await until(lambda: losses(ground, routes[1]), "the report", SLOW_SECONDS)
    assert Counter(plain.ids) == Counter(log.ids[60:])
    told = msgspec.json.decode(ground.table(topics.REPORTS)[f"loss/{routes[1].uid}/0"])
    assert (told["first"], told["last"]) == (log.begin, log.begin + 59)
    assert losses(ground, routes[2]) == []
