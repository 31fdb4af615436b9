"""The log files: every component writes JSON lines to its output, and the supervisor keeps them in rotated files.

One place writes the files, so that a crash's traceback, a JVM's complaint and a component's own lines are in one file
in the order in which they came, and the last of them are at hand when a component has to be given up.
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

# The complaints of Kafka's client library, which every client repeats many times a second while Kafka is away. One of
# a kind goes into the log at a time. Otherwise minutes without Kafka would push everything else out of it.

QUIET_SECONDS = 10.0
"""For how long others of the same kind are only counted."""

KINDS = 200
"""Kinds that are remembered at once."""

_COMPLAINT = re.compile(r"%(?P<level>[0-7])\|[\d.]+\|\w+\|")
_WHO = re.compile(r"[\w-]+#(producer|consumer)|\d+")


def level(line: str) -> str | None:
    """How bad a complaint is; None for any other line."""
    found = _COMPLAINT.match(line)
    if found is None:
        return None
    return {"4": "warning"}.get(found["level"], "error" if found["level"] < "4" else "info")


class Complaints:
    """Tells which lines to keep."""

    def __init__(self) -> None:
        self._kinds: dict[str, tuple[float, int]] = {}

    def admit(self, line: str, now: float) -> str | None:
        """The line as it is to be kept, with how many like it were not; None where it is only counted."""
        if _COMPLAINT.match(line) is None:
            return line
        kind = _WHO.sub("", line)
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
        self._complaints = Complaints()
        self._file = _Rotating(self.path)

    def write(self, line: str) -> None:
        """Keeps a line; one that is not JSON (a traceback, a JVM's) is put into JSON."""
        kept = self._complaints.admit(line, time.monotonic())
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
    """A record for a line that some program printed as text."""
    found = level(line) or next(
        (name for name in ("error", "fatal", "warn") if f"[{name.upper()}]" in line[:80]), "info"
    )
    found = {"warn": "warning"}.get(found, found)
    return {"timestamp": rfc3339_milli(now), "level": found, "component": component, "event": line}


def readable(line: str) -> str:
    """A log line for the terminal: the event and its details, without the JSON."""
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


class _Rotating:
    """A file that is set aside at a size. A full disk loses log lines, never the stack."""

    def __init__(self, path: Path) -> None:
        self._handler = logging.handlers.RotatingFileHandler(
            path, maxBytes=FILE_BYTES, backupCount=FILES_KEPT, delay=True, encoding="utf-8", errors="replace"
        )
        self._handler.handleError = lambda record: None  # type: ignore[method-assign]

    def append(self, line: str) -> None:
        self._handler.handle(logging.LogRecord("penstock", logging.INFO, "", 0, line, None, None))

    def close(self) -> None:
        self._handler.close()
