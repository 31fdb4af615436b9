"""How long ago, in kubectl's short form: 45s, 3m20s, 5h, 12d."""

from __future__ import annotations

from datetime import datetime

from penstock.timestamps import parse_rfc3339

MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400


def human_age(moment: str, now: datetime) -> str:
    """The time from a timestamp until now."""
    try:
        then = parse_rfc3339(moment)
    except ValueError:
        return "<invalid>"
    return human_duration(int((now - then).total_seconds()))


def human_duration(seconds: int) -> str:
    """A number of seconds, exact while short and rough when long."""
    if seconds < -1:
        return "<invalid>"
    seconds = max(0, seconds)
    # (below this, unit, its letter, smaller unit, its letter); the smaller unit is shown only while it matters
    steps = (
        (2 * MINUTE, 1, "s", 0, ""),
        (10 * MINUTE, MINUTE, "m", 1, "s"),
        (3 * HOUR, MINUTE, "m", 0, ""),
        (8 * HOUR, HOUR, "h", MINUTE, "m"),
        (2 * DAY, HOUR, "h", 0, ""),
        (8 * DAY, DAY, "d", HOUR, "h"),
        (2 * YEAR, DAY, "d", 0, ""),
        (8 * YEAR, YEAR, "y", DAY, "d"),
    )
    for limit, unit, letter, smaller, small_letter in steps:
        if seconds < limit:
            whole, rest = divmod(seconds, unit)
            extra = rest // smaller if smaller else 0
            return f"{whole}{letter}" + (f"{extra}{small_letter}" if extra else "")
    return f"{seconds // YEAR}y"
