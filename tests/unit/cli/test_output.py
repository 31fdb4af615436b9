"""What others have written is shown on a terminal without being obeyed, and goes into a file as it is."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli import events, keys, result_formats, terminal, trace
from penstock.cli.event_text import attempt_line, event_line
from penstock.cli.output import safe, say
from penstock.cli.subscriber import PrintingSubscriber
from penstock.cli.terminal import SafeConsole
from penstock.contract.attempts import AttemptRecord
from penstock.events.event import CloudEvent
from penstock.history.reader.answers import Attempt, Event, Traced
from penstock.operations import installation
from penstock.resources.api_keys import ANNOTATION, StoredKey, annotation_of

CLIPBOARD, CLEAR, ONE_BYTE, BACKWARDS = "\x1b]52;c;cm0=\x07", "\x1b[2J", "\x9b31m", "\u202etxt.exe"
HOSTILE = f"a\tb{CLIPBOARD}{CLEAR}{ONE_BYTE}{BACKWARDS}\r\x08\x7f"
OBEYED = ("\x1b", "\x07", "\x9b", "\u202e", "\r", "\x08", "\x7f")
NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)
EVENT = CloudEvent({"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}, HOSTILE.encode())
KEPT = Event(0, 0, NOW, "u", "1", "/s", "t", "1.0", None, None, None, None, {}, HOSTILE.encode(), None)
ATTEMPT = Attempt(
    0, 0, 0, "r", "Trigger", "n", "t", "subscriber", 1, "http://s", NOW, 0.1, None, "retry", HOSTILE, None
)
BROKER = {"metadata": {"annotations": {ANNOTATION: annotation_of([StoredKey(HOSTILE, "0" * 64)])}}}
FAILED = AttemptRecord(0.0, "r", 0, 0, "1", "/s", "t", "subscriber", 1, "http://s", "retry", 0.1, reason=HOSTILE)


class Terminal(io.StringIO):
    """Standard output, which is a terminal or a pipe."""

    def __init__(self, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


@st.composite
def foreign(draw: st.DrawFn) -> str:
    return draw(st.text(st.characters() | st.sampled_from([*OBEYED, "\t", "\n", "\u2066", "\x85"])))


@given(foreign())
def test_nothing_that_a_terminal_obeys_is_left(text: str) -> None:
    shown = safe(text)
    assert not any(ord(letter) < 0x20 and letter not in "\t\n" for letter in shown)
    assert not set(shown) & {*OBEYED, *map(chr, range(0x2066, 0x206A)), *map(chr, range(0x80, 0xA0))}
    assert safe(shown) == shown
    shown.encode()


@pytest.mark.parametrize("text", ["plain", "größer 注文 👩‍👩‍👧", "line\n\tindented", "\\u001b"])
def test_text_that_harms_nobody_stays(text: str) -> None:
    assert safe(text) == text


def test_it_is_shown_as_json_writes_it() -> None:
    assert safe("\x1b[2J\x9b\u202e") == "\\u001b[2J\\u009b\\u202e"


def listened() -> None:
    subscriber = PrintingSubscriber("127.0.0.1", 0, answer=204, count=None, full=True, as_json=False)
    subscriber._socket.close()
    subscriber._print(EVENT)


PRINTED: dict[str, Callable[[], object]] = {
    "say": lambda: say(HOSTILE),
    "tail": lambda: terminal.print_pieces(event_line(EVENT, 0.0)),
    "tail of deliveries": lambda: terminal.print_pieces(attempt_line(FAILED)),
    "listen --full": listened,
    "events --data": lambda: events._print([KEPT], data=True),
    "sql": lambda: result_formats.write(pa.table({"data": [HOSTILE.encode()]}), result_formats.Format.TABLE, None),
    "sql --format csv": lambda: result_formats.write(pa.table({"data": [HOSTILE]}), result_formats.Format.CSV, None),
    "keys list": lambda: keys.list_keys("b"),
    "trace": lambda: trace.trace("1"),
    "trace --json": lambda: trace.trace("1", as_json=True),
}


@contextlib.contextmanager
def history(_: object) -> Iterator[Any]:
    class Told:
        def trace(self, *_: object) -> list[Traced]:
            return [Traced(KEPT, (ATTEMPT,))]

    yield Told()


class Installed:
    """An installation whose API is not asked."""

    @contextlib.contextmanager
    def api(self) -> Iterator[None]:
        yield


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, bool], str]:
    def print_it(what: str, is_terminal: bool) -> str:
        out = Terminal(is_terminal)
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setattr(events, "open_history", history)
        monkeypatch.setattr(trace, "open_history", history)
        monkeypatch.setattr(installation, "find", lambda *_: Installed())
        monkeypatch.setattr(keys, "_broker", lambda *_: (None, BROKER))
        monkeypatch.setattr(
            terminal,
            "console",
            lambda: SafeConsole(file=out, highlight=False, soft_wrap=True, color_system=None),
        )
        PRINTED[what]()
        return out.getvalue()

    return print_it


@pytest.mark.parametrize("what", PRINTED)
def test_on_a_terminal_it_is_shown_and_not_obeyed(what: str, printed: Callable[[str, bool], str]) -> None:
    shown = printed(what, True)
    assert not [letter for letter in OBEYED if letter in shown], ascii(shown)
    assert "\\u001b[2J" in shown


@pytest.mark.parametrize("what", ["say", "listen --full", "events --data", "sql", "sql --format csv", "trace"])
def test_into_a_pipe_it_goes_as_it_is(what: str, printed: Callable[[str, bool], str]) -> None:
    assert CLEAR + ONE_BYTE + BACKWARDS in printed(what, False)


def test_colours_and_movements_of_penstock_itself_stay() -> None:
    out = Terminal(True)
    console = SafeConsole(file=out, force_terminal=True, color_system="standard")
    console.print(f"[red]a[/red] {CLEAR}")
    assert "\x1b[31ma\x1b[0m" in out.getvalue()
    assert CLEAR not in out.getvalue()
