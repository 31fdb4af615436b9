"""A table that renews itself on a terminal and listens to keys; and where its numbers come from."""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console
from rich.live import Live
from rich.text import Text

from penstock.cli.installation import of_stack, running_folder
from penstock.cli.routes.route_rates import SORTS, Counters, RouteName, Row, counters_of, rows_of
from penstock.cli.status import METRICS
from penstock.engine.problem import Problem
from penstock.observability.exposition import SharedMetrics

END = ("q", "\x03", "\x04")
KEYS = {"r": "rate", "p": "latency", "l": "lag", "f": "failures", "n": "name"}


class Looks:
    """Looks at the metrics of an installation, one after the other."""

    def __init__(self, url: str | None, data_dir: Path | None) -> None:
        self._url = url
        self._folder = None
        if url is None:
            root = of_stack(running_folder(data_dir)).root or Path()
            self._folder = root / METRICS
            if not any(self._folder.glob("*.db")):
                raise Problem("This stack records no metrics.", "Start it with metrics=true.")
        self._before, self._at = self._look(), time.monotonic()

    def rows(self, seconds: float) -> list[Row]:
        """What happened since the last look, which was so many seconds ago at least."""
        time.sleep(max(0.0, self._at + seconds - time.monotonic()))
        return self.rows_now()

    def rows_now(self) -> list[Row]:
        """What happened since the last look."""
        after, now = self._look(), time.monotonic()
        rows = rows_of(self._before, after, max(0.001, now - self._at))
        self._before, self._at = after, now
        return rows

    def _look(self) -> dict[RouteName, Counters]:
        if self._folder is not None:
            return counters_of(SharedMetrics(self._folder).collect())
        try:
            answer = httpx2.get(self._url or "", timeout=10, trust_env=False)
            answer.raise_for_status()
            return counters_of(text_string_to_metric_families(answer.text))
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
            raise Problem(f"The metrics at {self._url} cannot be read: {error}.") from None


def run(looks: Looks, sort: str, every: float, lines: Callable[[list[Row]], list[str]]) -> None:
    """Shows the table until `q` or Ctrl-C."""
    console = Console(highlight=False)
    rows: list[Row] = []
    due = time.monotonic() + every
    with _keys() as key, Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            height = console.size.height - 2
            shown = lines(sorted(rows, key=SORTS[sort])[:height])
            title = f"penstock top: {len(rows)} routes, by {sort}. Keys: r p l f n sort, q ends"
            live.update(Text("\n".join([title, *shown]), no_wrap=True, overflow="ellipsis"), refresh=True)
            pressed = key(max(0.0, due - time.monotonic()))
            if pressed in END:
                return
            sort = KEYS.get(pressed, sort)
            if time.monotonic() >= due:
                rows, due = looks.rows_now(), time.monotonic() + every


@contextmanager
def _keys() -> Iterator[Callable[[float], str]]:
    """Waits so many seconds for a key, and gives it; nothing where none was pressed. A terminal that is gone says q."""
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    tty.setcbreak(fd)

    def wait(seconds: float) -> str:
        if not select.select([fd], [], [], seconds)[0]:
            return ""
        # Not sys.stdin, which would take several keys at once and show the others to nobody.
        return os.read(fd, 1).decode(errors="replace") or END[0]

    try:
        yield wait
    except KeyboardInterrupt:
        pass
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)
