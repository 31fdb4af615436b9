"""Moments as people write them, in every command, page and field: a time, how long ago, or the earliest there is."""

from __future__ import annotations

import re

from penstock.resources.durations import NotADuration, parse_duration
from penstock.timestamps import parse_rfc3339

EARLIEST = "earliest"
EXPECTED = "expected 'earliest', a time (2026-11-01T00:00:00Z), or how long ago (90s, 1h30m, 7d, PT2H)"
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)", re.ASCII)
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


def span_of(text: str) -> float | None:
    """The seconds of a duration such as `1h30m` or `PT2H`; None where the text is not a duration."""
    if text.startswith("P"):
        try:
            return parse_duration(text)
        except NotADuration:
            return None
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def moment_of(text: str, now: float) -> float | None:
    """The Unix time that is meant, where durations end at `now`; 0: the earliest there is; None: not understood."""
    if text == EARLIEST:
        return 0.0
    span = span_of(text)
    try:
        return max(0.0, parse_rfc3339(text).timestamp() if span is None else now - span)
    except (ValueError, OverflowError):
        return None
