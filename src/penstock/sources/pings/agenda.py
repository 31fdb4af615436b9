"""When which source is next: one heap for all, so that a thousand sources that wait cost what one does."""

from __future__ import annotations

import heapq


class Agenda:
    """The next moment of each source."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, str]] = []
        self._next: dict[str, int] = {}

    def put(self, uid: str, moment: int | None) -> None:
        """The source is next at that moment; None: never."""
        if moment is None:
            self._next.pop(uid, None)
        elif self._next.get(uid) != moment:
            self._next[uid] = moment
            heapq.heappush(self._heap, (moment, uid))

    def first(self) -> int | None:
        """The moment of whichever source is next."""
        self._drop_stale()
        return self._heap[0][0] if self._heap else None

    def take(self, now: int) -> list[str]:
        """The sources whose moment has come. Each waits for its next `put`."""
        taken = []
        while (moment := self.first()) is not None and moment <= now:
            uid = heapq.heappop(self._heap)[1]
            del self._next[uid]
            taken.append(uid)
        return taken

    def _drop_stale(self) -> None:
        """Entries that a later `put` has replaced stay in the heap until they come up."""
        while self._heap and self._next.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
