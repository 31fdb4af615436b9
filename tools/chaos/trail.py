"""What the topics hold of events that did not arrive: where each was seen last."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import msgspec
from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, TopicPartition

from penstock.contract import records, topics
from penstock.dispatcher.cursors import cursor_store
from penstock.kafka.clients import librdkafka_options
from penstock.settings import Settings
from tools.chaos.checker import Lost
from tools.chaos.events import Id

READ_SECONDS = 30.0
"""Without a further record: the topic is read, or Kafka is away."""


def trails(settings: Settings, lost: list[Lost]) -> dict[Id, list[str]]:
    """One line for every record about each of these events, in the order of the topics on its way."""
    found: dict[Id, list[str]] = {one.id: [] for one in lost}
    origins: dict[tuple[int, int], Id] = {}
    names = route_names(settings)
    for record in read(settings, topics.EVENTS):
        ident = header(record, "ce_id")
        if ident in found:
            origins[place(record)] = ident
            found[ident].append(f"{topics.EVENTS} {where(record)}")
    for record in read(settings, topics.MATCHED):
        origin = (record.partition() or 0, int(header(record, records.ORIGIN) or -1))
        if origin in origins:
            routes = [names.get(uid, uid) for uid in header(record, records.ROUTES).split(",") if uid]
            found[origins[origin]].append(f"{topics.MATCHED} {where(record)} of {origin[1]} for {', '.join(routes)}")
    for record in read(settings, topics.ATTEMPTS):
        fact = msgspec.json.decode(record.value() or b"{}")
        about = (fact.get("partition"), fact.get("origin"))
        if about in origins:
            fact["route"] = names.get(fact.get("route"), fact.get("route"))
            told = {name: fact.get(name) for name in ("at", "route", "stage", "attempt", "result", "status", "reason")}
            found[origins[about]].append(f"{topics.ATTEMPTS} {where(record)} {told}")
    for line, ident in outstanding(settings, origins, names):
        found[ident].append(line)
    return found


def outstanding(
    settings: Settings, origins: dict[tuple[int, int], Id], names: dict[str, str]
) -> Iterator[tuple[str, Id]]:
    """What the newest cursors of routes say about the events, and the records of deliveries that wait."""
    newest: dict[tuple[str, int], Message] = {}
    for record in read(settings, topics.CURSORS):
        newest[(record.key() or b"").decode(), record.partition() or 0] = record
    for (key, partition), record in newest.items():
        value = record.value()
        if value is None:
            continue
        if (waiting := cursor_store.parse_delivery_key(key)) is not None and (partition, waiting[1]) in origins:
            name = names.get(waiting[0], waiting[0])
            told = f"{topics.CURSORS} {name} {where(record)}: outstanding as {value.decode()}"
            yield told, origins[partition, waiting[1]]
        route = cursor_store.parse_cursor_key(key)
        if route in names:
            for (number, origin), ident in origins.items():
                if number == partition:
                    yield f"{topics.CURSORS} {names[route]} {where(record)}: {_standing(value, origin)}", ident


def _standing(value: bytes, origin: int) -> str:
    """What a cursor says about one event."""
    cursor = msgspec.json.decode(value)
    young = next((entry for entry in cursor.get("outstanding", ()) if entry[0] == origin), None)
    standing = f"next is {cursor.get('next')}, resume {cursor.get('resume')}"
    return standing if young is None else f"{standing}, outstanding as {young}"


def route_names(settings: Settings) -> dict[str, str]:
    """Names of all routes there ever were, by uid, as far as the topic still holds them."""
    names = {}
    for record in read(settings, topics.ROUTES):
        key, value = (record.key() or b"").decode(), record.value()
        if key.startswith("route/") and value is not None:
            names[key.removeprefix("route/")] = str(msgspec.json.decode(value)["name"])
    return names


def read(settings: Settings, topic: str, last: int | None = None) -> Iterator[Message]:
    """A topic from its first record to its last, or only what is among the `last` offsets of each partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": settings.bootstrap,
            **librdkafka_options(settings),
            "group.id": "chaos",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    try:
        partitions = list(consumer.list_topics(topic, timeout=READ_SECONDS).topics[topic].partitions)
        places = [TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions]
        if last is not None:
            for place in places:
                begin, end = consumer.get_watermark_offsets(place, timeout=READ_SECONDS)
                place.offset = max(begin, end - last)
        consumer.assign(places)
        left = set(partitions)
        while left:
            record = consumer.poll(READ_SECONDS)
            if record is None:
                return
            if record.error() is None:
                yield record
            else:
                left.discard(record.partition() or 0)
    finally:
        consumer.close()


def header(record: Message, name: str) -> str:
    """A header's value; empty where there is none."""
    pairs = cast("list[tuple[str, bytes | None]]", record.headers() or [])
    return next(((value or b"").decode() for key, value in pairs if key == name), "")


def place(record: Message) -> tuple[int, int]:
    """Partition and offset."""
    return record.partition() or 0, record.offset() or 0


def where(record: Message) -> str:
    """The same for people, and when it was written."""
    return f"{record.partition()}/{record.offset()} at {record.timestamp()[1] / 1000:.3f}"
