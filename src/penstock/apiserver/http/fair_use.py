"""How much one client may ask for, so that it cannot starve the others.

As in Kubernetes, the group `system:masters` is exempt, and penstock's own components are: what they ask for is the work
of everybody. Whoever asks too fast is told to come back, which client libraries do by themselves.

Tokens cannot be guessed at the speed of the network either: an address that keeps coming with wrong ones is told to
wait before another is looked at. Tokens of a known user, and those in the data folder, are never held up by that.
"""

from __future__ import annotations

import hashlib
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from penstock.apiserver.access.identity import COMPONENTS, User
from penstock.apiserver.errors import ApiError

BURST_SECONDS = 2
"""For how long a user who was quiet may ask at once what the rate allows."""
BODIES_PER_USER = 32
"""Requests with a body that one user may have under way; each may hold three megabytes."""
WATCHES_PER_USER = 1000
WRONG_TOKENS = 20
"""Wrong tokens from one address before it has to wait."""
WRONG_TOKENS_PER_SECOND = 1.0
REMEMBERED = 4096
"""Users and addresses that are kept in mind."""
TOO_MANY = "Too many requests, please try again later."


class Buckets:
    """A bucket of tokens for each name: so many at once, and so many per second."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float]) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str, amount: float = 1.0) -> bool:
        """Whether there was so much; then it is gone."""
        level = self.level(name)
        enough = level >= amount
        self._levels[name] = (level - amount if enough else level, self._clock())
        self._levels.move_to_end(name)
        # Whoever was away longest has a full bucket, or nearly.
        if len(self._levels) > REMEMBERED:
            self._levels.popitem(last=False)
        return enough

    def level(self, name: str) -> float:
        """What is there now."""
        level, then = self._levels.get(name, (self._burst, 0.0))
        return min(self._burst, level + (self._clock() - then) * self._rate)


class FairUse:
    """Counts what users have under way, and how fast they come."""

    def __init__(self, requests_per_second: float, clock: Callable[[], float]) -> None:
        self._requests = Buckets(requests_per_second, requests_per_second * BURST_SECONDS, clock)
        self._wrong = Buckets(WRONG_TOKENS_PER_SECOND, WRONG_TOKENS, clock)
        self._known: OrderedDict[bytes, None] = OrderedDict()
        self._bodies: Counter[str] = Counter()
        self._watches: Counter[str] = Counter()

    def demand_patience(self, address: str, authorization: str) -> None:
        """Raises 429 where the address has tried too many wrong tokens and this one is not known to be right."""
        if self._wrong.level(address) < 1.0 and _digest(authorization) not in self._known:
            raise too_many_requests()

    def right_token(self, authorization: str) -> None:
        """The token was valid: it is looked at whatever else comes from its address."""
        key = _digest(authorization)
        self._known[key] = None
        self._known.move_to_end(key)
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)

    def wrong_token(self, address: str) -> None:
        """A token was not valid."""
        self._wrong.take(address)

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


def _digest(authorization: str) -> bytes:
    return hashlib.sha256(authorization.encode()).digest()
