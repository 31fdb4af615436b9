"""The keys of `penstock.cursors`. Each record lies in the partition of the same number as in `penstock.matched`.

| key | value |
|---|---|
| `<route uid>/<partition>` | a cursor |
| `tail/<partition>` | the offset of `penstock.matched` from which attached routes read on, in decimal |
| `payload/<route uid>/<partition>/<origin>` | what a delivery takes along into its stage |
"""

from __future__ import annotations

TAIL = "tail"
PAYLOAD = "payload"


def cursor_key(route: str, partition: int) -> str:
    """Key of a cursor."""
    return f"{route}/{partition}"


def tail_key(partition: int) -> str:
    """Key of a tail position."""
    return f"{TAIL}/{partition}"


def payload_key(route: str, partition: int, origin: int) -> str:
    """Key of what a delivery carries."""
    return f"{PAYLOAD}/{route}/{partition}/{origin}"


def parse_payload(key: str) -> tuple[str, int] | None:
    """Route and origin of such a key; None for another."""
    parts = key.split("/")
    if len(parts) != 4 or parts[0] != PAYLOAD or not parts[3].isdigit():
        return None
    return parts[1], int(parts[3])


def parse_cursor(key: str) -> str | None:
    """Route of a cursor's key; None for another."""
    route, _, partition = key.partition("/")
    return route if partition.isdigit() and route != TAIL else None
