"""Log files of components: the supervisor reads their output and writes it to rotated files.

So tracebacks, messages of a JVM and a component's own JSON lines are in one file in the order of their output, and the
last lines can be shown when a component cannot be kept running. Messages that Kafka's client library repeats many times
a second while Kafka is unreachable are rate-limited; minutes without Kafka would displace everything else.
"""

from __future__ import annotations

import collections
import json
import logging
import logging.handlers
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.runtime.times import rfc3339_milli

QUIET_SECONDS = 10.0
"""How long further messages of the same kind are only counted."""

KINDS = 200
"""Kinds of messages that are remembered."""

_LIBRDKAFKA = re.compile(r"%(?P<level>[0-7])\|[\d.]+\|\w+\|")
_CLIENT = re.compile(r"[\w-]+#(producer|consumer)|\d+")


def level(line: str) -> str | None:
    """The level of a message of librdkafka; None for any other line."""
    found = _LIBRDKAFKA.match(line)
    if found is None:
        return None
    return {"4": "warning"}.get(found["level"], "error" if found["level"] < "4" else "info")


class RepeatedMessages:
    """Rate limit for messages of librdkafka."""

    def __init__(self) -> None:
        self._kinds: dict[str, tuple[float, int]] = {}

    def filter(self, line: str, now: float) -> str | None:
        """The line to log, with the number of suppressed ones; None for a line to suppress."""
        if _LIBRDKAFKA.match(line) is None:
            return line
        kind = _CLIENT.sub("", line)
        since, held = self._kinds.get(kind, (now - QUIET_SECONDS, 0))
        if now - since < QUIET_SECONDS:
            self._kinds[kind] = (since, held + 1)
            return None
        if len(self._kinds) >= KINDS:
            self._kinds.clear()
        self._kinds[kind] = (now, 0)
        return f"{line} (and {held} more like it since the last)" if held else line


FILE_BYTES = 8 * 1024 * 1024
FILES_KEPT = 3
LINES_REMEMBERED = 200


class ComponentLog:
    """The log file of one component and its last lines."""

    def __init__(self, folder: Path, component: str, echo: Callable[[str, str], None] | None = None) -> None:
        self.path = folder / f"{component}.log"
        self.last: collections.deque[str] = collections.deque(maxlen=LINES_REMEMBERED)
        self._component, self._echo = component, echo
        self._repeated = RepeatedMessages()
        self._file = _RotatedFile(self.path)

    def write(self, line: str) -> None:
        """Logs a line; one that is not JSON (a traceback, a JVM's message) is wrapped."""
        kept = self._repeated.filter(line, time.monotonic())
        if kept is None:
            return
        line = kept
        self.last.append(line)
        if self._echo is not None:
            self._echo(self._component, line)
        self._file.append(line if _is_record(line) else json.dumps(wrap(line, self._component, time.time())))

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def wrap(line: str, component: str, now: float) -> dict[str, Any]:
    """A JSON record for a line of plain text."""
    found = level(line) or next(
        (name for name in ("error", "fatal", "warn") if f"[{name.upper()}]" in line[:80]), "info"
    )
    found = {"warn": "warning"}.get(found, found)
    return {"timestamp": rfc3339_milli(now), "level": found, "component": component, "event": line}


def readable(line: str) -> str:
    """A log line for the terminal: the event and its details as text."""
    if not _is_record(line):
        return line
    record = json.loads(line)
    event = record.pop("event")
    exception = record.pop("exception", None)
    level = record.pop("level", "info")
    details = " ".join(
        f"{key}={value}" for key, value in record.items() if key not in ("timestamp", "component", "logger")
    )
    text = " ".join(part for part in (f"[{level}]" if level != "info" else "", str(event), details) if part)
    return f"{text}\n{exception}" if exception else text


def _is_record(line: str) -> bool:
    if not line.startswith("{"):
        return False
    try:
        return "event" in json.loads(line)
    except ValueError:
        return False


class _RotatedFile:
    """A rotated file. On a full disk log lines are lost, but nothing fails."""

    def __init__(self, path: Path) -> None:
        self._handler = logging.handlers.RotatingFileHandler(
            path, maxBytes=FILE_BYTES, backupCount=FILES_KEPT, delay=True, encoding="utf-8", errors="replace"
        )
        self._handler.handleError = lambda record: None  # type: ignore[method-assign]

    def append(self, line: str) -> None:
        self._handler.handle(logging.LogRecord("penstock", logging.INFO, "", 0, line, None, None))

    def close(self) -> None:
        self._handler.close()
