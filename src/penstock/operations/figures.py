"""Numbers and spans of time in few letters. Pure."""

from __future__ import annotations


def duration(seconds: float | None) -> str:
    """A span of time in a few letters: `4s`, `3m 20s`, `2h 5m`, `9d 4h`."""
    if seconds is None:
        return ""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}d {hours}h"
    return f"{hours}h {minutes}m" if hours else f"{minutes}m {rest}s" if minutes else f"{rest}s"


def count(number: float) -> str:
    """A number in at most five characters: `99999`, `123k`, `1.2M`."""
    if number < 100_000:
        return str(round(number))
    return f"{number / 1000:.0f}k" if number < 999_500 else f"{number / 1_000_000:.1f}M"
