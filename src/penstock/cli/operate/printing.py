"""Lines with colours, which follow NO_COLOR and whether there is a terminal; and no more lines than one can read."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from rich.text import Text

from penstock.cli.terminal import console

LINES_PER_SECOND = 50

_console = console()


def print_pieces(pieces: Sequence[tuple[str, str]], indent: str = "") -> None:
    """Prints pieces of text, each with its style."""
    line = Text(indent)
    for number, (text, style) in enumerate(pieces):
        line.append("  " if number else "").append(text, style=style)
    _console.print(line)


class Sample:
    """Lets so many lines through each second, and says of how many they are a sample."""

    def __init__(
        self, say: Callable[[str], None], limit: int = LINES_PER_SECOND, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._say, self._limit, self._clock = say, limit, clock
        self._second, self._seen = int(clock()), 0

    def admits(self) -> bool:
        """Whether another line may be shown."""
        self.turn()
        self._seen += 1
        return self._seen <= self._limit

    def turn(self) -> None:
        """To be called now and then: says what was left out of the second that is over."""
        second = int(self._clock())
        if second != self._second:
            if self._seen > self._limit:
                self._say(f"… a sample: {self._limit} of {self._seen} in this second")
            self._second, self._seen = second, 0
