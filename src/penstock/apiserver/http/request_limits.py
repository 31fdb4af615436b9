"""Limits per client: the rate of requests, and how many with a body and how many watches run at once.

As in Kubernetes, the group `system:masters` is exempt, and so are penstock's own components, which work for all users.
A client over a limit gets 429 with Retry-After, and client libraries retry by themselves.

Failed authentications are limited to 1/s per address. The token is checked first, so that wrong tokens of others never
delay valid ones: all clients of one machine have the same address. Guessing a token is infeasible at any rate, since
tokens have 256 random bits or a signature.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from penstock.apiserver import errors
from penstock.apiserver.access.identity import COMPONENTS, User
from penstock.apiserver.errors import ApiError
from penstock.runtime.rate_limit import TokenBucket

BURST_SECONDS = 2
"""The burst, in seconds of the rate."""
BODIES_PER_USER = 32
"""Concurrent requests with a body per user; each may hold three megabytes."""
WATCHES_PER_USER = 1000
WRONG_TOKENS = 20
"""Wrong tokens from one address before it gets 429."""
WRONG_TOKENS_PER_SECOND = 1.0
MAX_BUCKETS = 4096
"""Users and addresses with a bucket."""
TOO_MANY = "Too many requests, please try again later."


class Buckets:
    """A token bucket for each name."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float]) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    def take(self, name: str) -> bool:
        """Takes a token, if there is one; whether there was."""
        bucket = self._buckets.setdefault(name, TokenBucket(self._rate, self._burst))
        self._buckets.move_to_end(name)
        # The bucket used least recently is full, or nearly.
        if len(self._buckets) > MAX_BUCKETS:
            self._buckets.popitem(last=False)
        return bucket.take(self._clock())


class RequestLimits:
    """Counts the requests of users, and those that run."""

    def __init__(self, requests_per_second: float, clock: Callable[[], float]) -> None:
        self._requests = Buckets(requests_per_second, requests_per_second * BURST_SECONDS, clock)
        self._wrong = Buckets(WRONG_TOKENS_PER_SECOND, WRONG_TOKENS, clock)
        self._bodies: Counter[str] = Counter()
        self._watches: Counter[str] = Counter()

    def wrong_token(self, address: str) -> ApiError:
        """The error for an invalid token: 401, or 429 after too many from its address."""
        return errors.unauthorized() if self._wrong.take(address) else _too_many_requests()

    @contextmanager
    def request(self, user: User, *, has_body: bool, is_watch: bool) -> Iterator[None]:
        """Counts a request of the user while it runs; raises 429."""
        if _is_exempt(user):
            yield
            return
        if not self._requests.take(user.name):
            raise _too_many_requests()
        running, most = (self._watches, WATCHES_PER_USER) if is_watch else (self._bodies, BODIES_PER_USER)
        if not (has_body or is_watch):
            yield
            return
        if running[user.name] >= most:
            raise _too_many_requests()
        running[user.name] += 1
        try:
            yield
        finally:
            running[user.name] -= 1
            if not running[user.name]:
                del running[user.name]


def _is_exempt(user: User) -> bool:
    """Whether the user has no limits."""
    return user.is_master or user.name in COMPONENTS


def _too_many_requests() -> ApiError:
    """In the words of Kubernetes' flow control."""
    return ApiError(429, "TooManyRequests", TOO_MANY, details={"retryAfterSeconds": 1}, headers={"retry-after": "1"})
