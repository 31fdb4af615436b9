"""What a response means: delivered, to be retried, or failed for good.

Success is 200 to 299. Network errors, 404, 408, 409, 429 and 5xx are retried; everything else, redirects included, is
final. A successful response that is a malformed event counts as a failure that is retried. If something is missing on
this side, nothing is sent and no attempt is counted: that is `Withheld`.
"""

from __future__ import annotations

import enum

from penstock.contract.attempts import FailureCause

RETRYABLE = frozenset({404, 408, 409, 429})


class Outcome(enum.Enum):
    """The outcome of one attempt."""

    DELIVERED = "delivered"
    RETRYABLE = "retryable"
    REFUSED = "refused"


class Withheld(Exception):  # not a failure of the subscriber
    """Something on this side is missing: a token, a Secret, DNS. The request waits until it is available.

    `cause` is what the status of the route shows.
    """

    def __init__(self, reason: str, cause: FailureCause) -> None:
        super().__init__(reason)
        self.cause = cause


def classify(status: int | None) -> Outcome:
    """The outcome of an attempt by its status; None is an attempt without a response."""
    if status is None:
        return Outcome.RETRYABLE
    if 200 <= status <= 299:
        return Outcome.DELIVERED
    if status in RETRYABLE or status >= 500:
        return Outcome.RETRYABLE
    return Outcome.REFUSED


def may_carry_reply(status: int) -> bool:
    """Whether an event in the body of a response with this status is a reply; with 202 it is not."""
    return 200 <= status <= 299 and status != 202
