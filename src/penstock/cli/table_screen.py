"""The screen of `penstock top`: a table that refreshes itself and reads keys."""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.live import Live
from rich.text import Text

from penstock.cli.terminal import SafeConsole
from penstock.operations.metrics_client import MetricsSamples
from penstock.operations.route_rates import SORTS, RouteRow

QUIT = ("q", "\x03", "\x04")
KEYS = {"r": "rate", "p": "latency", "l": "lag", "f": "failures", "n": "name"}


def run(samples: MetricsSamples, sort: str, every: float, lines: Callable[[list[RouteRow]], list[str]]) -> None:
    """Shows the table until `q` or Ctrl-C."""
    console = SafeConsole(highlight=False)
    rows: list[RouteRow] = []
    due = time.monotonic() + every
    with _keys() as key, Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            height = console.size.height - 2
            shown = lines(sorted(rows, key=SORTS[sort])[:height])
            title = f"penstock top: {len(rows)} routes, by {sort}. Keys: r p l f n sort, q quits"
            live.update(Text("\n".join([title, *shown]), no_wrap=True, overflow="ellipsis"), refresh=True)
            pressed = key(max(0.0, due - time.monotonic()))
            if pressed in QUIT:
                return
            sort = KEYS.get(pressed, sort)
            if time.monotonic() >= due:
                rows, due = samples.rows_now(), time.monotonic() + every


@contextmanager
def _keys() -> Iterator[Callable[[float], str]]:
    """A function that waits so many seconds for a key; "" if none was pressed, `q` if the terminal was closed."""
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    tty.setcbreak(fd)

    def wait(seconds: float) -> str:
        if not select.select([fd], [], [], seconds)[0]:
            return ""
        # Not sys.stdin, which would read several keys at once and lose all but the first.
        return os.read(fd, 1).decode(errors="replace") or QUIT[0]

    try:
        yield wait
    except KeyboardInterrupt:
        pass
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)
