"""The complaints of Kafka's client library, which every client repeats many times a second while Kafka is away.

One of a kind goes into the log at a time. Otherwise minutes without Kafka would push everything else out of it.
"""

from __future__ import annotations

import re

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
