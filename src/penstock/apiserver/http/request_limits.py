"""How much one client may ask for, so that it cannot starve the others.

As in Kubernetes, the group `system:masters` is exempt, and penstock's own components are: what they ask for is the work
of everybody. Whoever asks too fast is told to come back, which client libraries do by themselves.

An address that keeps coming with wrong tokens is told to wait, too. Whether a token is right is found out first, so
that nobody is held up by the wrong ones of others: all clients of one machine have the same address. To guess a right
one is out of reach at any speed, since tokens have 256 random bits or a signature.
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
"""For how long a user who was quiet may ask at once what the rate allows."""
BODIES_PER_USER = 32
"""Requests with a body that one user may have under way; each may hold three megabytes."""
WATCHES_PER_USER = 1000
WRONG_TOKENS = 20
"""Wrong tokens from one address before it is told to wait."""
WRONG_TOKENS_PER_SECOND = 1.0
REMEMBERED = 4096
"""Users and addresses that are kept in mind."""
TOO_MANY = "Too many requests, please try again later."


class Buckets:
    """A token bucket for each name."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float]) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    def take(self, name: str) -> bool:
        """Whether there was a token; then it is gone."""
        bucket = self._buckets.setdefault(name, TokenBucket(self._rate, self._burst))
        self._buckets.move_to_end(name)
        # Whoever was away longest has a full bucket, or nearly.
        if len(self._buckets) > REMEMBERED:
            self._buckets.popitem(last=False)
        return bucket.take(self._clock())


class FairUse:
    """Counts what users have under way, and how fast they come."""

    def __init__(self, requests_per_second: float, clock: Callable[[], float]) -> None:
        self._requests = Buckets(requests_per_second, requests_per_second * BURST_SECONDS, clock)
        self._wrong = Buckets(WRONG_TOKENS_PER_SECOND, WRONG_TOKENS, clock)
        self._bodies: Counter[str] = Counter()
        self._watches: Counter[str] = Counter()

    def wrong_token(self, address: str) -> ApiError:
        """How a token that is not valid is refused: by 401, or by 429 where too many came from its address."""
        return errors.unauthorized() if self._wrong.take(address) else too_many_requests()

    @contextmanager
    def request(self, user: User, *, has_body: bool, is_watch: bool) -> Iterator[None]:
        """Counts a request of the user while it lasts; raises 429."""
        if is_exempt(user):
            yield
            return
        if not self._requests.take(user.name):
            raise too_many_requests()
        under_way, most = (self._watches, WATCHES_PER_USER) if is_watch else (self._bodies, BODIES_PER_USER)
        if not (has_body or is_watch):
            yield
            return
        if under_way[user.name] >= most:
            raise too_many_requests()
        under_way[user.name] += 1
        try:
            yield
        finally:
            under_way[user.name] -= 1
            if not under_way[user.name]:
                del under_way[user.name]


def is_exempt(user: User) -> bool:
    """Whether no limit holds for the user."""
    return user.is_master or user.name in COMPONENTS


def too_many_requests() -> ApiError:
    """In the words of Kubernetes' flow control."""
    return ApiError(429, "TooManyRequests", TOO_MANY, details={"retryAfterSeconds": 1}, headers={"retry-after": "1"})
