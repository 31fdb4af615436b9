"""Recent changes, for watches: a bounded ring of changes per kind, and a bound for all of them together.

A watch keeps nothing but its position in the ring. One that falls so far behind that its position has been evicted gets
410 and lists again; a client that never reads therefore costs no memory, however much happens meanwhile.
"""

from __future__ import annotations

import asyncio
from collections import deque
from itertools import islice

from penstock.apiserver.store.storage import Change

RING_CHANGES = 4096
RING_BYTES = 16 * 1024 * 1024
HISTORY_BYTES = 64 * 1024 * 1024
"""Of all kinds together: a user who may define kinds could have any number of rings."""
WOKEN_AT_ONCE = 25


class Ring:
    """The latest changes of one kind, oldest first."""

    def __init__(self, start: int, *, max_changes: int = RING_CHANGES, max_bytes: int = RING_BYTES) -> None:
        self.start = start
        """Version up to which changes have been evicted: a watch must begin here or later."""
        self._changes: deque[Change] = deque()
        self.bytes = 0
        """Size of its changes in memory."""
        self._max_changes, self._max_bytes = max_changes, max_bytes
        self._first = 0
        self._waiting: dict[asyncio.Future[None], None] = {}

    def append(self, change: Change) -> None:
        """Adds a change, and evicts the oldest ones if the ring is full."""
        self._changes.append(change)
        self.bytes += change.size
        while len(self._changes) > self._max_changes or (self.bytes > self._max_bytes and len(self._changes) > 1):
            self.evict_oldest()

    def evict_oldest(self) -> None:
        """Evicts the oldest change: a watch that has not read it has to list again."""
        oldest = self._changes.popleft()
        self.bytes -= oldest.size
        self.start = oldest.version
        self._first += 1

    def wake(self) -> None:
        """Wakes every waiting watch."""
        waiting, self._waiting = list(self._waiting), {}
        if waiting:
            _release(waiting)

    async def news(self) -> None:
        """Returns when something was appended after this call."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[future] = None
        try:
            await future
        finally:
            self._waiting.pop(future, None)

    def position(self, version: int) -> int | None:
        """The position after the change of this version; None if that has been evicted."""
        if version < self.start:
            return None
        position = self._first + len(self._changes)
        for change in reversed(self._changes):
            if change.version <= version:
                break
            position -= 1
        return position

    def since(self, position: int, limit: int) -> list[Change] | None:
        """Up to `limit` changes from a position on; None if the position has been evicted."""
        if position < self._first:
            return None
        start = position - self._first
        return list(islice(self._changes, start, start + limit))


class WatchHistory:
    """The rings of all kinds."""

    def __init__(self, version: int, *, max_bytes: int = HISTORY_BYTES) -> None:
        self._start, self._max_bytes = version, max_bytes
        self.version = version
        """The version of the last published change."""
        self._rings: dict[str, Ring] = {}

    def ring(self, resource: str) -> Ring:
        """The ring of a kind; it begins with the version the server started from."""
        if resource not in self._rings:
            self._rings[resource] = Ring(self._start)
        return self._rings[resource]

    def publish(self, changes: list[Change]) -> None:
        """Committed changes, in order."""
        touched = set()
        for change in changes:
            ring = self.ring(change.resource)
            ring.append(change)
            touched.add(change.resource)
            self.version = change.version
        self._bound()
        for resource in touched:
            self._rings[resource].wake()

    @property
    def bytes(self) -> int:
        """Size of all changes in memory."""
        return sum(ring.bytes for ring in self._rings.values())

    def _bound(self) -> None:
        """Evicts changes from the largest ring until the bound holds."""
        rest = self.bytes - self._max_bytes
        while rest > 0:
            largest = max(self._rings.values(), key=lambda ring: ring.bytes)
            rest += -largest.bytes
            largest.evict_oldest()
            rest += largest.bytes


def _release(waiting: list[asyncio.Future[None]]) -> None:
    """Wakes some now and the rest in the next rounds of the loop, so that requests get their turn in between."""
    for future in waiting[:WOKEN_AT_ONCE]:
        if not future.done():
            future.set_result(None)
    rest = waiting[WOKEN_AT_ONCE:]
    if rest:
        asyncio.get_running_loop().call_soon(_release, rest)
