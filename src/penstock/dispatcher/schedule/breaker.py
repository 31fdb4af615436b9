"""A circuit breaker: a subscriber that cannot be reached is tried in rounds of a few deliveries, with rests between.

Every delivery still has all its attempts, and the first answer ends it. What is bounded is what the attempts of all
such routes together may take from those that can be served: the more there are, the longer each rests.
"""

from __future__ import annotations

ATTEMPTS_PER_SECOND = 2000
"""Of all unreachable routes of a task together."""
SHORT_REST_SECONDS = 0.01
LONG_REST_SECONDS = 1.0
"""A rest is longer only where so many are unreachable that one attempt each is too much."""


def rounds(unreachable: int) -> tuple[int, float]:
    """How many deliveries a route may start at once, and the seconds it rests then, where so many are unreachable."""
    rest = min(LONG_REST_SECONDS, SHORT_REST_SECONDS * unreachable)
    size = max(1, int(ATTEMPTS_PER_SECOND * rest / unreachable))
    return size, size * unreachable / ATTEMPTS_PER_SECOND
