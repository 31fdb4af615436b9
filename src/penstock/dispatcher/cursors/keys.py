"""The keys of `penstock.cursors`. Each record lies in the partition of the same number as in `penstock.matched`.

| key | value |
|---|---|
| `<route uid>/<partition>` | a cursor |
| `tail/<partition>` | the `next` offset of `penstock.matched` to read; `origin` and time of the record before |
| `delivery/<route uid>/<partition>/<origin>` | a delivery that waits |
| `payload/<route uid>/<partition>/<origin>` | what a delivery takes along into its stage |
"""

from __future__ import annotations

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


def parse_delivery(key: str) -> tuple[str, int] | None:
    """Route and origin of a delivery's key; None for another."""
    return _parse(key, DELIVERY)


def parse_payload(key: str) -> tuple[str, int] | None:
    """Route and origin of a payload's key; None for another."""
    return _parse(key, PAYLOAD)


def _parse(key: str, prefix: str) -> tuple[str, int] | None:
    parts = key.split("/")
    if len(parts) != 4 or parts[0] != prefix or not parts[3].isdigit():
        return None
    return parts[1], int(parts[3])


def parse_cursor(key: str) -> str | None:
    """Route of a cursor's key; None for another."""
    route, _, partition = key.partition("/")
    return route if partition.isdigit() and route != TAIL else None
