"""Stored cursors: the partition of `penstock.cursors` that belongs to a partition of `penstock.matched`.

Each record is in the partition with the same number as in `penstock.matched`:

| key | value |
|---|---|
| `<route uid>/<partition>` | a cursor |
| `tail/<partition>` | the next offset of `penstock.matched` to read, with origin and time of the record before |
| `delivery/<route uid>/<partition>/<origin>` | a delivery that waits |
| `payload/<route uid>/<partition>/<origin>` | what a delivery takes along into its stage |

Records of attempts are written in the same transaction, so that they always agree with the cursors.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from penstock.contract import topics
from penstock.dispatcher.cursors.cursor import Cursor, Outstanding, decode_delivery, from_the_beginning, restore
from penstock.dispatcher.cursors.partition import TailPosition
from penstock.dispatcher.cursors.stage_payload import StagePayload, decode_payload
from penstock.kafka.transactions import Entry, TransactionalPartition
from penstock.kafka.unreadable import report_unreadable
from penstock.settings import Settings

TAIL = "tail"
DELIVERY = "delivery"
PAYLOAD = "payload"


def cursor_key(route: str, partition: int) -> str:
    """Key of a cursor."""
    return f"{route}/{partition}"


def tail_key(partition: int) -> str:
    """Key of a tail position."""
    return f"{TAIL}/{partition}"


def delivery_key(route: str, partition: int, origin: int) -> str:
    """Key of a delivery that has a record of its own."""
    return f"{DELIVERY}/{route}/{partition}/{origin}"


def payload_key(route: str, partition: int, origin: int) -> str:
    """Key of what a delivery sends in its stage."""
    return f"{PAYLOAD}/{route}/{partition}/{origin}"


def parse_delivery_key(key: str) -> tuple[str, int] | None:
    """Route and origin of a delivery's key; None for other keys."""
    return _parse(key, DELIVERY)


def parse_payload_key(key: str) -> tuple[str, int] | None:
    """Route and origin of a payload's key; None for other keys."""
    return _parse(key, PAYLOAD)


def _parse(key: str, prefix: str) -> tuple[str, int] | None:
    parts = key.split("/")
    if len(parts) != 4 or parts[0] != prefix or not parts[3].isdigit():
        return None
    return parts[1], int(parts[3])


def parse_cursor_key(key: str) -> str | None:
    """Route of a cursor's key; None for other keys."""
    route, _, partition = key.partition("/")
    return route if partition.isdigit() and route != TAIL else None


_TAIL_DECODER = msgspec.json.Decoder(TailPosition)

UNDECODABLE = (ValueError, RecursionError, msgspec.MsgspecError)


@dataclass
class Restored:
    """What the topic holds of a partition."""

    tail: TailPosition | None = None
    cursors: dict[str, Cursor] = field(default_factory=dict)
    payloads: dict[tuple[str, int], StagePayload] = field(default_factory=dict)
    orphans: list[tuple[str, int]] = field(default_factory=list)
    """Route and origin of deliveries that have a record although no cursor counts them."""
    unreadable: list[str] = field(default_factory=list)


class CursorStore:
    """The cursors of one partition. Every method blocks: call from a thread."""

    def __init__(self, settings: Settings, partition: int) -> None:
        self.partition = partition
        self._log = TransactionalPartition(settings, "cursors", partition)
        self._tail = TailGuard(partition)
        self.stop_waiting = self._log.stop_waiting
        """To be set when the task ends: ends waiting for Kafka."""
        self.open = self._log.open
        self.look_after = self._log.look_after
        self.close = self._log.close

    def load(self, changed: set[Cursor]) -> Restored:
        """What was last committed, as cursors that note changes in `changed`. To be called after `open`."""
        found = self._log.load(topics.CURSORS)
        restored = decode_partition({key: stored.value for key, stored in found.items()}, self.partition, changed)
        for key in restored.unreadable:
            report_unreadable(found[key].message, "it is not a cursor, a delivery, a payload or a tail")
        return restored

    def commit(self, entries: list[Entry]) -> None:
        """Writes all entries or none. Waits while Kafka is unreachable. Raises Fenced where another task owns it."""
        admitted = self._tail.admit(entries)
        if admitted:
            self._log.commit(admitted, self._tail.without)


class TailGuard:
    """Withholds the tail of a partition while a cursor that Kafka refused is not written.

    The content of such a cursor exists in memory only. After a restart everything from the written tail on is read
    again, which repeats deliveries and loses none.
    """

    def __init__(self, partition: int) -> None:
        self._key = tail_key(partition)
        self._unwritten: set[str] = set()
        self._held: Entry | None = None

    def admit(self, entries: list[Entry]) -> list[Entry]:
        """The entries of a flush that may be written, with a tail that was withheld before."""
        if not self._unwritten:
            return entries
        self._unwritten -= {entry.key for entry in entries if entry.topic == topics.CURSORS}
        tail = next((entry for entry in entries if self._is_tail(entry)), self._held)
        others = [entry for entry in entries if not self._is_tail(entry)]
        if tail is None or self._unwritten:
            self._held = tail
            return others
        self._held = None
        return [*others, tail]

    def without(self, entries: list[Entry], refused: Entry) -> list[Entry]:
        """The entries that may be written without one that Kafka refused."""
        left = [entry for entry in entries if entry is not refused]
        if refused.topic != topics.CURSORS or parse_cursor_key(refused.key) is None:
            return left
        self._unwritten.add(refused.key)
        self._held = next((entry for entry in left if self._is_tail(entry)), self._held)
        return [entry for entry in left if not self._is_tail(entry)]

    def _is_tail(self, entry: Entry) -> bool:
        return entry.topic == topics.CURSORS and entry.key == self._key


def decode_partition(values: dict[str, bytes], partition: int, changed: set[Cursor]) -> Restored:
    """The newest values of a partition's keys as cursors. One that cannot be decoded is listed, and causes repeats.

    The position of a cursor that cannot be decoded is unknown, so its route reads everything again. Of a delivery the
    key is enough: its event is found by its origin.
    """
    restored = Restored()
    deliveries: dict[str, list[Outstanding]] = {}
    cursors: dict[str, tuple[str, bytes]] = {}
    for key, value in values.items():
        try:
            if key == tail_key(partition):
                restored.tail = _TAIL_DECODER.decode(value)
            elif (ident := parse_delivery_key(key)) is not None:
                deliveries.setdefault(ident[0], []).append(Outstanding(ident[1], 0, 0))
                deliveries[ident[0]][-1] = decode_delivery(value, ident[1])
            elif (ident := parse_payload_key(key)) is not None:
                restored.payloads[ident] = decode_payload(value)
            elif (route := parse_cursor_key(key)) is not None:
                cursors[route] = (key, value)
            else:
                restored.unreadable.append(key)
        except UNDECODABLE:
            restored.unreadable.append(key)
    for route, (key, value) in cursors.items():
        try:
            restored.cursors[route] = restore(route, value, deliveries.get(route, ()), changed)
        except UNDECODABLE:
            restored.unreadable.append(key)
            restored.cursors[route] = from_the_beginning(route, changed)
    for route, waiting in deliveries.items():
        restored.orphans += _orphans(route, waiting, restored.cursors.get(route))
    return restored


def _orphans(route: str, waiting: list[Outstanding], cursor: Cursor | None) -> list[tuple[str, int]]:
    """Deliveries that the cursor does not hold, because the log lost its end between their records and its own."""
    return [(route, one.origin) for one in waiting if cursor is None or one.origin not in cursor.outstanding]
