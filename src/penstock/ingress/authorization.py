"""Authentication and authorization of senders, for targets that restrict who may send.

It happens twice: with the head of a request, so that a sender without any right is refused before the body is read; and
with the events, because a policy may allow a sender some of them only.

A sender is authenticated by an API key of the target, of which the digest is stored, or by a token
(`token_authentication.py`). A key may have a rate limit. With the head a request counts as one event; the rest is
charged when it is known, so a batch may overdraw the key, which then has to wait until that is made up for.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Protocol

from penstock.contract.routes import ApiKey
from penstock.events.event import CloudEvent
from penstock.ingress import responses
from penstock.ingress.request import Request, Sender
from penstock.ingress.responses import Response
from penstock.ingress.targets import ResolvedTarget
from penstock.resources.eventpolicy import TargetRules
from penstock.runtime.rate_limit import TokenBucket
from penstock.runtime.times import rfc3339_of

PREFIX = "pk_"
"""What every key begins with: it distinguishes keys from tokens, and lets scanners find leaked ones."""
HEADER = "x-api-key"
MAX_ALLOWANCES = 10_000

UNKNOWN = responses.unauthorized("unknown API key: it was revoked, or belongs to another address")


class KeyAllowance:
    """The rate limits of a key: events and bytes per second."""

    def __init__(self, key: ApiKey) -> None:
        rates = {"events": key.events, "bytes": key.bytes}
        self._buckets = {what: TokenBucket(rate, rate) for what, rate in rates.items() if rate is not None}

    def used_up(self, now: float) -> str | None:
        """The limit that is used up, `events` or `bytes`; None where the key may send."""
        return next((what for what, bucket in self._buckets.items() if bucket.level(now) <= 0), None)

    def begin(self) -> None:
        """Charges one event for a request that was let in, before its body is there."""
        if events := self._buckets.get("events"):
            events.spend(1)

    def spend(self, events: Sequence[CloudEvent]) -> None:
        """Charges what the request had beyond that."""
        if bucket := self._buckets.get("events"):
            bucket.spend(len(events) - 1)
        if bucket := self._buckets.get("bytes"):
            bucket.spend(sum(len(event.data or b"") for event in events))


class KeyAuthenticator:
    """Authenticates senders by their API keys."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._allowances: OrderedDict[tuple[str, ApiKey], KeyAllowance] = OrderedDict()

    def authenticate(self, request: Request, resolved: ResolvedTarget) -> Sender | Response | None:
        """See `Authenticator`."""
        access, given = resolved.target.access, _given(request)
        if access is None or given is None:
            return None
        digest, now = digest_of(given), self._clock()
        key = next((one for one in access.keys if hmac.compare_digest(one.digest, digest)), None)
        if key is None:
            return UNKNOWN
        if key.expires is not None and key.expires <= now:
            return responses.unauthorized(f"the API key {key.name} expired at {rfc3339_of(int(key.expires))}")
        allowance = self._allowance(resolved.target.uid, key)
        used_up = allowance.used_up(now)
        if used_up is not None:
            return responses.too_fast(f"the API key {key.name} has reached its limit of {used_up} per second")
        allowance.begin()
        return Sender(f"key:{key.name}", is_invited=True, spend=allowance.spend)

    def _allowance(self, target: str, key: ApiKey) -> KeyAllowance:
        place = (target, key)
        found = self._allowances.get(place)
        if found is None:
            found = self._allowances[place] = KeyAllowance(key)
            if len(self._allowances) > MAX_ALLOWANCES:
                self._allowances.popitem(last=False)
        self._allowances.move_to_end(place)
        return found


def digest_of(key: str) -> str:
    """What is stored of a key. 32 random bytes cannot be guessed, so no slow digest is needed."""
    return hashlib.sha256(key.encode()).hexdigest()


def _given(request: Request) -> str | None:
    """The key of a request, in a header of its own or as a bearer token."""
    if HEADER in request.headers:
        return request.headers[HEADER].strip()
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    token = token.strip()
    return token if scheme.lower() == "bearer" and token.startswith(PREFIX) else None


NO_CREDENTIALS = responses.unauthorized(
    "this address takes events from authenticated senders only; send `Authorization: Bearer` with an API key or a "
    "token for its audience",
    invalid=False,
)


class Authenticator(Protocol):
    """Authenticates senders by one kind of credentials."""

    def authenticate(self, request: Request, resolved: ResolvedTarget) -> Sender | Response | None:
        """The sender; a response where such credentials are invalid; None where there are none."""


class SenderAuthorizer:
    """Decides which requests a target takes."""

    def __init__(self, authenticators: Sequence[Authenticator] | None = None) -> None:
        # API keys have a prefix, so they come before the authenticator that handles every bearer token.
        self._authenticators = (KeyAuthenticator(),) if authenticators is None else tuple(authenticators)

    def add(self, authenticator: Authenticator) -> None:
        """Adds an authenticator after the others."""
        self._authenticators = (*self._authenticators, authenticator)

    def refusal(self, request: Request, resolved: ResolvedTarget, rules: TargetRules) -> Response | None:
        """Why a request is not taken, by its head; notes its sender."""
        for authenticator in self._authenticators:
            found = authenticator.authenticate(request, resolved)
            if isinstance(found, Response):
                return found
            if found is not None:
                request.sender = found
                why = None if found.is_invited else rules.why_not(found.subject)
                return None if why is None else responses.forbidden(why)
        return NO_CREDENTIALS

    def refusal_of_events(self, request: Request, events: Sequence[CloudEvent]) -> Response | None:
        """Why the events of a request that was let in are not taken."""
        sender, resolved = request.sender, request.resolved
        if sender is not None and sender.spend is not None:
            sender.spend(events)
        if sender is None or sender.is_invited or resolved is None or resolved.rules is None:
            return None
        why = resolved.rules.why_not_these(sender.subject, events)
        return None if why is None else responses.forbidden(why)
