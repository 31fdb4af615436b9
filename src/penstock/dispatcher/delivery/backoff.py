"""How long to wait before a retry: linear `delay * i`, exponential `delay * 2^i`, `i` from 0, without jitter.

The delivery spec's `backoffMax` bounds this wait. `Retry-After` of a 429 or 503 may ask for a longer one, up to
`retryAfterMax` and whatever `backoffMax` says; without `retryAfterMax` it is ignored.
"""

from __future__ import annotations

from email.utils import parsedate_to_datetime

from penstock.contract.routes import Delivery
from penstock.runtime.rate_limit import pause_after

LONGEST_SECONDS = 30 * 24 * 3600.0
"""Upper limit of every wait: a month, longer than any retention by default."""


def backoff(policy: Delivery, retry: int) -> float:
    """Seconds before the retry with this index, counted from 0. Both a policy and a delay must be set to wait."""
    if policy.backoff_policy is None or not policy.backoff_delay:
        return 0.0
    longest = min(policy.backoff_max or LONGEST_SECONDS, LONGEST_SECONDS)
    # The first product must not overflow: infinity times 0 is NaN.
    delay = min(policy.backoff_delay, longest)
    if policy.backoff_policy == "linear":
        return min(delay * retry, longest)
    return pause_after(retry + 1, delay, longest)


def retry_after(header: str | None, now: float) -> float | None:
    """Seconds that a `Retry-After` header asks for: a number of seconds or an HTTP date; None if unreadable."""
    text = (header or "").strip()
    if not text:
        return None
    if text.isascii() and text.isdigit():
        return float(text[:12])
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - now)
    except (ValueError, TypeError, OverflowError):
        return None


def longest_wait(policy: Delivery, retry: int) -> float:
    """The longest wait possible before the retry with this index, whatever a response asks for."""
    return max(backoff(policy, retry), policy.retry_after_max or 0.0)


def wait_before(policy: Delivery, retry: int, status: int | None, header: str | None, now: float) -> float:
    """Seconds to wait before the retry with this index, by the response before it."""
    wait = backoff(policy, retry)
    if status in (429, 503) and policy.retry_after_max:
        asked = retry_after(header, now)
        if asked is not None:
            wait = max(wait, min(asked, policy.retry_after_max))
    return wait
