"""What an answer means: delivered, worth another attempt, or refused for good.

Success is 200 to 299. Network errors, 404, 408, 409, 429 and 5xx are retried; everything else, redirects included, is
final. A successful answer that claims to be an event and is not one counts as a failure that is retried.
"""

from __future__ import annotations

import enum

RETRYABLE = frozenset({404, 408, 409, 429})


class Outcome(enum.Enum):
    """What one attempt came to."""

    DELIVERED = "delivered"
    RETRYABLE = "retryable"
    REFUSED = "refused"


def classify(status: int | None) -> Outcome:
    """The outcome of an attempt by its status; None is an attempt without an answer."""
    if status is None:
        return Outcome.RETRYABLE
    if 200 <= status <= 299:
        return Outcome.DELIVERED
    if status in RETRYABLE or status >= 500:
        return Outcome.RETRYABLE
    return Outcome.REFUSED


def may_carry_reply(status: int) -> bool:
    """Whether an event in the body of this answer is a reply: 202 says that none is to be expected."""
    return 200 <= status <= 299 and status != 202
