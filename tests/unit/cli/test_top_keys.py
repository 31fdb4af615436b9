"""`penstock top` in a terminal: keys sort the table, q ends it, and the terminal is as it was before."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

SECONDS = 120
IN_ITS_TERMINAL = """
import fcntl, signal, termios
from penstock.cli import app
signal.signal(signal.SIGINT, signal.default_int_handler)
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
app()
"""
"""The program with a terminal of its own, so that Ctrl-C reaches it as a signal, which it does not ignore even where
the tests run in the background of a shell."""
METRICS = """
# TYPE penstock_route_lag_events gauge
penstock_route_lag_events{kind="Trigger",namespace="default",name="apples"} 1
penstock_route_lag_events{kind="Trigger",namespace="default",name="pears"} 70
"""


class Metrics(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(METRICS.encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Metrics) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/metrics"
        server.shutdown()
        thread.join()


class Terminal:
    """A terminal with a program in it; what it shows is read until something is there."""

    def __init__(self, *arguments: str) -> None:
        self.keyboard, self._screen = pty.openpty()
        self.before = termios.tcgetattr(self._screen)
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "24"}
        self.program = subprocess.Popen(
            [sys.executable, "-c", IN_ITS_TERMINAL, *arguments],
            stdin=self._screen,
            stdout=self._screen,
            stderr=self._screen,
            env=environment,
            start_new_session=True,
        )
        self.shown = ""

    def press(self, keys: str) -> None:
        self.shown = ""
        os.write(self.keyboard, keys.encode())

    def until(self, pattern: str) -> str:
        deadline = time.monotonic() + SECONDS
        while not (found := re.search(pattern, self.shown, re.DOTALL)):
            assert time.monotonic() < deadline, f"{pattern} is not shown:\n{self.shown}"
            if select.select([self.keyboard], [], [], 0.2)[0]:
                self.shown += os.read(self.keyboard, 65536).decode(errors="replace")
        return found[0]

    def ended(self) -> int:
        deadline = time.monotonic() + SECONDS
        while (code := self.program.poll()) is None:
            assert time.monotonic() < deadline, f"it has not ended:\n{self.shown}"
            if select.select([self.keyboard], [], [], 0.2)[0]:
                self.shown += os.read(self.keyboard, 65536).decode(errors="replace")
        return code

    @property
    def after(self) -> list[object]:
        return termios.tcgetattr(self._screen)

    def close(self) -> None:
        if self.program.poll() is None:
            self.program.kill()
        self.program.wait()
        os.close(self.keyboard)
        os.close(self._screen)


@pytest.fixture
def terminal(url: str) -> Iterator[Terminal]:
    started = Terminal("top", "--metrics", url, "--every", "0.5")
    yield started
    started.close()


def test_keys_sort_the_table_and_q_ends_it(terminal: Terminal) -> None:
    terminal.until("2 routes, by lag.*trigger/pears.*trigger/apples")
    terminal.press("n")
    terminal.until("by name.*trigger/apples.*trigger/pears")
    terminal.press("fr")  # two at once: neither is lost
    terminal.until("by rate")
    terminal.press("?")  # means nothing
    terminal.until("by rate")
    terminal.press("q")
    assert terminal.ended() == 0
    assert terminal.after == terminal.before


def test_ctrl_c_ends_it_as_well(terminal: Terminal) -> None:
    terminal.until("by lag")
    terminal.press("\x03")
    assert terminal.ended() == 0
    assert terminal.after == terminal.before
