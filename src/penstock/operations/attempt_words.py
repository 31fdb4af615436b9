"""An attempt at delivering an event in words: which route, what was answered, and what followed. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.history.reader.answers import Attempt

RESULTS = {
    "delivered": "delivered",
    "replied": "answered with an event",
    "retry": "to be tried again",
    "deadletter": "given up, on to the dead letter sink",
    "dropped": "given up, nobody takes it",
    "cancelled": "cancelled: the route is gone",
}


def route_text(attempt: Attempt) -> str:
    """The route by name; older records have its uid alone."""
    return f"{(attempt.kind or 'route').lower()} {attempt.namespace}/{attempt.name}" if attempt.name else attempt.route


def came_of(attempt: Attempt, took: str) -> str:
    """The answer and what followed; `took` is how long the attempt was."""
    answer = str(attempt.status) if attempt.status is not None else "no answer"
    reason = f" ({attempt.reason})" if attempt.reason and attempt.reason != f"HTTP status {attempt.status}" else ""
    return f"{answer} in {took}: {RESULTS.get(attempt.result, attempt.result)}{reason}"
