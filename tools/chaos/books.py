"""What was sent, what was accepted, and what arrived where: in arrays, so that a million events take little memory."""

from __future__ import annotations

import itertools
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tools.chaos.events import Id, parse

NEVER = float("inf")


class Sent:
    """The producer's book. Moments are monotonic seconds; 0 stands for 'not yet'."""

    def __init__(self) -> None:
        self.first = array("d")
        """When the event was first sent."""
        self.last = array("d")
        """When the attempt began that is the last so far; for an accepted event the one that was accepted."""
        self.accepted = array("d")
        """When the 202 was read."""
        self.tries = array("I")
        self.count = 0
        """Events accepted."""
        self.refused: Counter[str] = Counter()
        """Attempts that were not accepted: by status, or by the name of the error where no answer came."""

    def begin(self, number: int, now: float) -> None:
        """An attempt begins."""
        self._reach(number)
        self.first[number] = self.first[number] or now
        self.last[number] = now
        self.tries[number] += 1

    def accept(self, number: int, now: float) -> None:
        """The event was answered with 202."""
        self.accepted[number] = now
        self.count += 1

    def is_accepted(self, number: int) -> bool:
        """Whether the event was answered with 202."""
        return number < len(self.accepted) and self.accepted[number] > 0

    def was_sent(self, number: int) -> bool:
        """Whether the event was sent at all."""
        return number < len(self.first) and self.first[number] > 0

    def numbers(self, start: int = 0, end: int | None = None) -> Iterator[int]:
        """Every event that was accepted, from the number `start` on and below `end`."""
        last = len(self.accepted) if end is None else min(end, len(self.accepted))
        return (number for number in range(start, last) if self.accepted[number])

    @property
    def resent(self) -> int:
        """Accepted events that were sent more than once: those may be in the log more than once."""
        return sum(1 for number in self.numbers() if self.tries[number] > 1)

    def _reach(self, number: int) -> None:
        missing = number + 1 - len(self.first)
        if missing > 0:
            missing = max(missing, 4096)
            for column in (self.first, self.last, self.accepted):
                column.frombytes(bytes(8 * missing))
            self.tries.frombytes(bytes(self.tries.itemsize * missing))


class Arrivals:
    """The book of one subscriber: what came, in which order. Serials rise over all subscribers; 0 is 'never'."""

    def __init__(self) -> None:
        self._base: int | None = None
        self._attempts = array("I")
        self._successes = array("I")
        self._counts = array("I")
        self.odd: Counter[str] = Counter()
        """Deliveries that are no event of this run, or not as they were sent, by what they looked like."""

    def attempt(self, ident: Id, serial: int) -> None:
        """The event was offered."""
        place = self._place(ident)
        if not self._attempts[place]:
            self._attempts[place] = serial

    def succeed(self, ident: Id, serial: int) -> bool:
        """The event was taken. True for the first time."""
        place = self._place(ident)
        self._counts[place] += 1
        if self._successes[place]:
            return False
        self._successes[place] = serial
        return True

    def first_attempt(self, ident: Id) -> int:
        """The serial at which the event was first offered."""
        return self._read(self._attempts, ident)

    def first_success(self, ident: Id) -> int:
        """The serial at which the event was first taken."""
        return self._read(self._successes, ident)

    def taken(self, ident: Id) -> int:
        """How often the event was taken."""
        return self._read(self._counts, ident)

    def offered(self) -> Iterator[tuple[int, bool, int]]:
        """Every event that was offered: its number, whether it is the reply, how often it was taken."""
        for index, (serial, taken) in enumerate(zip(self._attempts, self._counts, strict=True), self._base or 0):
            if serial:
                yield index // 2, bool(index % 2), taken

    def _read(self, column: array[int], ident: Id) -> int:
        index = _index(ident) - (self._base or 0)
        return column[index] if 0 <= index < len(column) else 0

    def _place(self, ident: Id) -> int:
        """Where the event's figures are; makes room for them."""
        index = _index(ident)
        if self._base is None:
            self._base = max(0, index - 1024)
        if index < self._base:
            self._widen(self._base - index, front=True)
            self._base = index
        if index - self._base >= len(self._attempts):
            self._widen(max(index - self._base + 1 - len(self._attempts), 4096), front=False)
        return index - self._base

    def _widen(self, by: int, *, front: bool) -> None:
        for name in ("_attempts", "_successes", "_counts"):
            column: array[int] = getattr(self, name)
            nothing = bytes(column.itemsize * by)
            if front:
                setattr(self, name, array("I", nothing) + column)
            else:
                column.frombytes(nothing)


def _index(ident: Id) -> int:
    parsed = parse(ident)
    if parsed is None:
        raise ValueError(f"no event of a run has the id {ident!r}")
    return parsed[0] * 2 + parsed[1]


@dataclass
class Books:
    """Everything that the check needs."""

    sent: Sent = field(default_factory=Sent)
    arrivals: dict[str, Arrivals] = field(default_factory=dict)
    """By the name of the subscriber."""
    deliveries: int = 0
    """Events taken, by all subscribers together."""
    serials: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def at(self, name: str) -> Arrivals:
        """The book of a subscriber."""
        return self.arrivals.setdefault(name, Arrivals())
