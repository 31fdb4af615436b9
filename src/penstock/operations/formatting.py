"""Numbers, durations and delivery attempts as short text. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.history.reader.answers import Attempt


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


RESULTS = {
    "delivered": "delivered",
    "replied": "replied with an event",
    "retry": "retrying",
    "deadletter": "dead-lettered",
    "dropped": "dropped",
    "cancelled": "cancelled: the route is gone",
}


def route_text(attempt: Attempt) -> str:
    """The route by name; older records have only its uid."""
    return f"{(attempt.kind or 'route').lower()} {attempt.namespace}/{attempt.name}" if attempt.name else attempt.route


def result_text(attempt: Attempt, took: str) -> str:
    """The response and the result of an attempt that took `took`."""
    response = str(attempt.status) if attempt.status is not None else "no response"
    reason = f" ({attempt.reason})" if attempt.reason and attempt.reason != f"HTTP status {attempt.status}" else ""
    return f"{response} in {took}: {RESULTS.get(attempt.result, attempt.result)}{reason}"
