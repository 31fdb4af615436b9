"""The hands of the control plane, the ingress and the dispatcher around a router."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from penstock.contract import records as headers
from penstock.contract import reports, routes, topics
from penstock.contract.reports import Ack
from penstock.contract.routes import Record, Route, Version
from penstock.kafka.clients import topic_name
from penstock.kafka.watchdog import Watchdog
from penstock.router.service import RouterService
from penstock.settings import Settings
from tests.running import headers_of, kafka_access, read_to_end
from tests.waiting import eventually

TARGET = "broker-1"
VERSIONS = itertools.count(1)
ANY_PARTITION = -1
"""Lets the client choose one by the key."""


def trigger(uid: str, start: tuple[int, ...] = (), **attributes: str) -> Route:
    return Route(
        uid=uid, kind="Trigger", namespace="default", name=uid, target=TARGET, attributes=attributes, start=start
    )


@dataclass(frozen=True)
class Matched:
    """A record of `penstock.matched` that is no marker."""

    partition: int
    id: str
    origin: int
    routes: list[str]
    generation: int


@dataclass
class Stage:
    """Everything around the router."""

    settings: Settings
    seen: list[Matched] = field(default_factory=list)
    published: dict[str, Route] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.producer = Producer({**kafka_access(self.settings), "acks": "all", "linger.ms": 1})
        # Routes have a producer of their own: flushing one that another thread fills does not end.
        self._announcer = Producer({**kafka_access(self.settings), "acks": "all", "linger.ms": 0})
        self._next = dict.fromkeys(range(self.settings.partitions), 0)
        self._read_on()

    def _read_on(self) -> None:
        """With a new client: one that was told of no broker, as by a Kafka after a pause, may stay blind."""
        self._watchdog = Watchdog()
        config = {**kafka_access(self.settings), "group.id": "stage"}
        self._consumer = Consumer(self._watchdog.of(config, 1.0))
        self._consumer.assign(
            [TopicPartition(self.topic(topics.MATCHED), n, offset) for n, offset in self._next.items()]
        )

    def topic(self, name: str) -> str:
        """What a topic of the contract is called here."""
        return topic_name(self.settings, name)

    def publish(self, *now: Route) -> int:
        """Makes these the routes, and returns the version that says so."""
        gone = self.published.keys() - {route.uid for route in now}
        version = Version(version=next(VERSIONS), routes=len(now))
        for uid in gone:
            self._announcer.produce(self.topic(topics.ROUTES), key=f"route/{uid}", value=None)
        records: list[Record] = [*now, version]
        for record in records:
            self._announcer.produce(self.topic(topics.ROUTES), key=routes.key_of(record), value=routes.encode(record))
        self._announcer.flush(60)
        self.published = {route.uid: route for route in now}
        return version.version

    def ends(self) -> tuple[int, ...]:
        """The end of each partition of the events."""
        return tuple(eventually(partial(self._end, n), every=0.2)[0] for n in range(self.settings.partitions))

    def _end(self, partition: int) -> tuple[int] | None:
        try:
            return (self._consumer.get_watermark_offsets(TopicPartition(self.topic(topics.EVENTS), partition), 60)[1],)
        except KafkaException:  # a topic that is so new that it has no leader yet, say
            self._consumer.close()
            self._read_on()
            return None

    def send(self, ident: str, type: str = "order", partition: int | None = None) -> None:
        """Accepts an event."""
        self.producer.produce(
            self.topic(topics.EVENTS),
            value=b'{"n": 1}',
            headers=[
                ("ce_specversion", b"1.0"),
                ("ce_id", ident.encode()),
                ("ce_source", b"/test"),
                ("ce_type", type.encode()),
                ("content-type", b"application/json"),
                (headers.TARGET, TARGET.encode()),
            ],
            partition=ANY_PARTITION if partition is None else partition,
        )
        self.producer.poll(0)

    def look(self) -> list[Matched]:
        """Everything matched so far, in the order of each partition."""
        if self._watchdog.gone:
            self._consumer.close()
            self._read_on()
        while (message := self._consumer.poll(0.05)) is not None:
            if message.error() is not None:
                continue
            self._next[message.partition() or 0] = (message.offset() or 0) + 1
            found = headers_of(message)
            if headers.MARKER not in found:
                self.seen.append(
                    Matched(
                        message.partition() or 0,
                        found["ce_id"].decode(),
                        int(found[headers.ORIGIN]),
                        found[headers.ROUTES].decode().split(","),
                        int(found[headers.GENERATION]),
                    )
                )
        return self.seen

    def ids(self, uid: str) -> list[str]:
        """The events matched for a route, repeats included."""
        return [found.id for found in self.look() if uid in found.routes]

    def close(self) -> None:
        """Ends all clients: one that outlives its Kafka complains of it without end."""
        self._consumer.close()
        self.producer.close()
        self._announcer.close()


def wait_for_version(service: RouterService, version: int, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while service.status()["version"] < version:
        assert time.monotonic() < deadline, f"version {version} is not in force: {service.status()}"
        assert service.failure() is None
        time.sleep(0.02)


@contextmanager
def steady_load(stage: Stage, kind: str, pause: float) -> Iterator[list[str]]:
    """Events of a type are accepted one after the other meanwhile; gives the ids of all that were, as they come."""
    sent: list[str] = []
    done = threading.Event()

    def load() -> None:
        while not done.wait(pause):
            ident = f"{kind}-{len(sent)}"
            stage.send(ident, kind)
            sent.append(ident)

    thread = threading.Thread(target=load)
    thread.start()
    try:
        yield sent
    finally:
        done.set()
        thread.join()
    stage.producer.flush(60)


def newest_ack(settings: Settings, version: int) -> Ack:
    """What the router says of the version, once it has said that it acts by it."""

    def said() -> Ack | None:
        values = [m.value() for m in read_to_end(settings, topics.REPORTS) if m.key() == b"ack/router/router"]
        newest = reports.decode("ack/router/router", values[-1]) if values and values[-1] else None
        return newest if isinstance(newest, Ack) and newest.version == version else None

    found = eventually(said, 120)
    assert isinstance(found, Ack)
    return found
