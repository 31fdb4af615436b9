"""Generations of the router's query as all processes know them: their numbers, and which one routing continues from.

The router records under `generation/<epoch>` in `penstock.reports` which generation is the one that counts, before it
writes that generation's fence to `penstock.matched`. Each start of a router has an epoch of its own, the next after
the one under `epoch/router`, and only the router that took over last can write there. Under `shut-out/<partition>` the
dispatcher reports which generation it ignores.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from penstock.contract.records import read_json
from penstock.contract.routes import Count

KIND = "generation"
SHUT_OUT = "shut-out"
EPOCH_KEY = "epoch/router"
LOG_KEY = "log/events"
"""The key of Kafka's id of the topic `penstock.events` that is routed."""
PER_EPOCH = 1_000_000
"""Generations that a router may start: its first has the number `epoch * PER_EPOCH + 1`."""


class LivePoint(msgspec.Struct, frozen=True):
    """Routing continues after this generation's records; where it has written none, from its start."""

    number: Count
    start: tuple[Count, ...]
    """By partition: events before it had been routed when the generation began."""
    ends: tuple[Count, ...]
    """By partition: where `penstock.matched` ended then. All its records are after that."""


class ShutOut(msgspec.Struct, frozen=True):
    """Records of a generation do not count in a partition of `penstock.matched`, because of a fence."""

    generation: Count
    fence: Count
    """The number of the fence in force."""


_DECODER, _EPOCH_DECODER = msgspec.json.Decoder(LivePoint), msgspec.json.Decoder(Count)
_LOG_DECODER = msgspec.json.Decoder(str)
_SHUT_OUT_DECODER = msgspec.json.Decoder(ShutOut)


def key_of(number: int) -> str:
    """The key that the router of this generation writes under."""
    return f"{KIND}/{epoch_of(number)}"


def epoch_of(number: int) -> int:
    """The epoch of the router that a generation belongs to."""
    return number // PER_EPOCH


def shut_out_key(partition: int) -> str:
    """The key under which the dispatcher reports that it ignores a generation in a partition."""
    return f"{SHUT_OUT}/{partition}"


def encode(noted: LivePoint | ShutOut) -> bytes:
    """The value in the topic."""
    return msgspec.json.encode(noted)


def decode(value: bytes) -> LivePoint:
    """The generation that counts, from its record. Raises Unreadable."""
    return read_json(value, _DECODER)


def decode_shut_out(value: bytes) -> ShutOut:
    """The generation that is ignored, from its record. Raises Unreadable."""
    return read_json(value, _SHUT_OUT_DECODER)


def encode_epoch(epoch: int) -> bytes:
    """The value under `EPOCH_KEY`."""
    return msgspec.json.encode(epoch)


def decode_epoch(value: bytes) -> int:
    """The epoch. Raises Unreadable."""
    return read_json(value, _EPOCH_DECODER)


def encode_log(topic_id: str) -> bytes:
    """The value under `LOG_KEY`."""
    return msgspec.json.encode(topic_id)


def decode_log(value: bytes) -> str:
    """The topic id. Raises Unreadable."""
    return read_json(value, _LOG_DECODER)


def newest(points: Iterable[LivePoint]) -> LivePoint | None:
    """The one that counts: a router that was replaced may still have written, with a lower number."""
    return max(points, key=lambda point: point.number, default=None)
