"""A power loss on a real Kafka: the matched events lose their end while the accepted ones are whole."""

from __future__ import annotations

import asyncio
import contextlib
import struct
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import Producer

from penstock.contract import topics
from penstock.contract.routes import Delivery, Route
from penstock.settings import Settings
from tests.integration.dispatcher.dispatcher_stage import OK, Headers, Request, Stage, Subscribe
from tests.running import kafka_access, running_kafka, with_held_ports
from tests.waiting import until

if TYPE_CHECKING:
    import pytest

    from penstock.engine.jars.jar_cache import Jars

EVENTS = 14
BEFORE = [0, 1, 2, 3, 2, 3, 4, 5, 4, 5, 6, 7]
"""Origins as two overlapping generations of the router wrote them, the last four events still to come."""
KEPT = 4
"""Records of them that are on disk when the power fails."""
AFTER = range(4, EVENTS)
"""What the router writes then: everything after the newest origin that it finds."""


class Logs:
    """Writes both logs, each record in a batch of its own so that a file can be cut between any two."""

    def __init__(self, settings: Settings, even: Route, odd: Route) -> None:
        self._producer = Producer(kafka_access(settings))
        self._routes = (even, odd)

    def accept(self, count: int) -> None:
        for number in range(count):
            self._write(topics.EVENTS, number, [])

    def match(self, origin: int) -> None:
        route = self._routes[origin % 2]
        added: Headers = [("penstock_origin", f"{origin}".encode()), ("penstock_routes", route.uid.encode())]
        self._write(topics.MATCHED, origin, added)

    def _write(self, topic: str, number: int, added: Headers) -> None:
        event = {"specversion": "1.0", "id": f"e{number}", "source": "/s", "type": "t"}
        headers: Headers = [*((f"ce_{name}", value.encode()) for name, value in event.items()), *added]
        self._producer.produce(topic, partition=0, value=b"{}", headers=headers)
        assert self._producer.flush(20) == 0


def cut(folder: Path, length: int) -> None:
    """Leaves the first `length` records of a partition whose batches hold one record each."""
    [segment] = folder.glob("*.log")
    content, position = segment.read_bytes(), 0
    while position < len(content):
        offset, size = struct.unpack_from(">qi", content, position)
        if offset >= length:
            break
        position += 12 + size
    assert 0 < position < len(content), "there must be something to cut"
    segment.write_bytes(content[:position])
    for derived in [*folder.glob("*.index"), *folder.glob("*.timeindex"), *folder.glob("*.snapshot")]:
        derived.unlink()


@contextlib.asynccontextmanager
async def kafka_of(settings: Settings, jar_folders: Jars) -> AsyncIterator[subprocess.Popen[bytes]]:
    """A Kafka that is started and stopped beside the test's own loop."""
    kafka = running_kafka(settings, jar_folders)
    try:
        yield await asyncio.to_thread(kafka.__enter__)
    finally:
        await asyncio.to_thread(kafka.__exit__, None, None, None)


async def test_matched_events_that_were_not_on_disk_are_neither_lost_nor_mixed_up(
    tmp_path_factory: pytest.TempPathFactory, jar_folders: Jars, subscribe: Subscribe
) -> None:
    settings = with_held_ports(Settings(data_dir=tmp_path_factory.mktemp("power"), partitions=1))
    up = False

    def react(request: Request) -> tuple[int, dict[str, str], bytes]:
        """Two events wait for another attempt when the power fails; all else is taken."""
        return OK if up or request.id not in {"e5", "e6"} else (503, {}, b"")

    subscribers = [await subscribe(react), await subscribe(react)]
    policy = Delivery(retry=100, backoff_policy="linear", backoff_delay=0.1)
    async with kafka_of(settings, jar_folders) as kafka:
        stage = Stage(settings)
        even, odd = (stage.trigger(subscriber.endpoint, delivery=policy) for subscriber in subscribers)
        stage.publish(even, odd)
        logs = Logs(settings, even, odd)
        logs.accept(EVENTS)
        for origin in BEFORE:
            logs.match(origin)
        async with stage.task(cursor_flush_ms=10):
            tried = {f"e{origin}" for origin in BEFORE}
            await until(
                lambda: tried <= {*subscribers[0].ids, *subscribers[1].ids}, "all, the two that fail among them"
            )
            await until(lambda: stage.tail(0) == len(BEFORE), "the tail to be written")
        kafka.kill()
        kafka.wait()
    cut(settings.data_dir / "kafka" / "log" / f"{topics.MATCHED}-0", KEPT)
    up = True
    seen = [len(subscriber.ids) for subscriber in subscribers]
    async with kafka_of(settings, jar_folders):
        for origin in AFTER:
            logs.match(origin)
        async with Stage(settings).task(cursor_flush_ms=10):
            wanted = [{f"e{number}" for number in range(EVENTS) if number % 2 == side} for side in (0, 1)]
            await until(
                lambda: all(set(s.ids) >= events for s, events in zip(subscribers, wanted, strict=True)),
                "every event at its subscriber",
            )
    assert [set(subscriber.ids) for subscriber in subscribers] == wanted, "nobody got what was not for them"
    again = [subscriber.ids[before:] for subscriber, before in zip(subscribers, seen, strict=True)]
    assert [sorted(ids) for ids in again] == [["e10", "e12", "e6", "e8"], ["e11", "e13", "e5", "e9"]]
