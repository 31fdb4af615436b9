"""Moments as people give them to replays: a time, how long before an object was made, or the earliest there is."""

from __future__ import annotations

from penstock.resources.durations import NotADuration, parse_duration
from penstock.timestamps import parse_rfc3339

EARLIEST = "earliest"
EXPECTED = "expected 'earliest', an RFC 3339 time such as 2026-11-01T00:00:00Z, or a duration such as PT2H"


def moment_of(text: str, made: float) -> float | None:
    """The Unix time that is meant, for an object that was made at `made`; 0: the earliest there is; None: nothing."""
    if text == EARLIEST:
        return 0.0
    try:
        if text.startswith("P"):
            return max(0.0, made - parse_duration(text))
        return max(0.0, parse_rfc3339(text).timestamp())
    except (NotADuration, ValueError, OverflowError):
        return None
