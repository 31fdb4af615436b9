"""Long answers in pieces: what waits to be sent to a slow client is one piece, however long the whole is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

PIECE_BYTES = 64 * 1024


def pieces(parts: Iterable[bytes], size: int = PIECE_BYTES) -> Iterator[bytes]:
    """The bytes of the parts, in pieces of no more than `size`: short parts together, long ones cut."""
    waiting: list[bytes] = []
    length = 0
    for part in parts:
        if waiting and length + len(part) > size:
            yield b"".join(waiting)
            waiting, length = [], 0
        if len(part) > size:
            yield from (part[start : start + size] for start in range(0, len(part), size))
        else:
            waiting.append(part)
            length += len(part)
    if waiting:
        yield b"".join(waiting)
