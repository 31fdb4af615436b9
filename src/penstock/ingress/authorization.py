"""The authorizer of a target that does not take events from everybody.

Twice it is asked: with the head of a request, so that who may not send at all is told before the body is read; and with
the events, where a policy lets a sender in with some of them only.
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

# Senders with an API key of the target, and how much each key may send. A key is known by its digest. Whether it may
# send is decided with the head of a request, which counts as one event at once, and the rest is reckoned up when it
# is known: a batch may take a key below zero, and then it waits until that is made up for.

PREFIX = "pk_"
"""What every key begins with, so that it is told from a token, and found where it was published by mistake."""
HEADER = "x-api-key"
MAX_ALLOWANCES = 10_000

UNKNOWN = responses.unauthorized("this API key is not known here: it was revoked, or is that of another address")


class KeyAllowance:
    """What is left of the events and bytes that a key may send in a second."""

    def __init__(self, key: ApiKey) -> None:
        rates = {"events": key.events, "bytes": key.bytes}
        self._buckets = {what: TokenBucket(rate, rate) for what, rate in rates.items() if rate is not None}

    def used_up(self, now: float) -> str | None:
        """Which of them is used up; None where the key may send."""
        return next((what for what, bucket in self._buckets.items() if bucket.level(now) <= 0), None)

    def begin(self) -> None:
        """A request was let in. What others send beside it is judged before its body is there."""
        if events := self._buckets.get("events"):
            events.spend(1)

    def spend(self, events: Sequence[CloudEvent]) -> None:
        """What it has sent."""
        if bucket := self._buckets.get("events"):
            bucket.spend(len(events) - 1)
        if bucket := self._buckets.get("bytes"):
            bucket.spend(sum(len(event.data or b"") for event in events))


class KeyAuthenticator:
    """Knows senders by their keys."""

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
            return responses.unauthorized(f"the API key {key.name} ended at {rfc3339_of(int(key.expires))}")
        allowance = self._allowance(resolved.target.uid, key)
        used_up = allowance.used_up(now)
        if used_up is not None:
            return responses.too_fast(f"the API key {key.name} has sent all the {used_up} that it may in a second")
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
    """What is kept of a key. Its 32 random bytes cannot be found by trying, so that no slow digest is needed."""
    return hashlib.sha256(key.encode()).hexdigest()


def _given(request: Request) -> str | None:
    """The key of a request, in a header of its own or as a bearer token."""
    if HEADER in request.headers:
        return request.headers[HEADER].strip()
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    token = token.strip()
    return token if scheme.lower() == "bearer" and token.startswith(PREFIX) else None


NO_CREDENTIALS = responses.unauthorized(
    "this address takes events only from senders it knows; send `Authorization: Bearer` with an API key, or with a "
    "token for its audience",
    invalid=False,
)


class Authenticator(Protocol):
    """Knows senders by one kind of credentials."""

    def authenticate(self, request: Request, resolved: ResolvedTarget) -> Sender | Response | None:
        """Who sends; the refusal where there are such credentials that do not hold; None where there are none."""


class SenderAuthorizer:
    """Lets requests in, or says why not."""

    def __init__(self, authenticators: Sequence[Authenticator] | None = None) -> None:
        # Keys are known by how they begin, so they are asked for before what takes every bearer token for its own.
        self._authenticators = (KeyAuthenticator(),) if authenticators is None else tuple(authenticators)

    def add(self, authenticator: Authenticator) -> None:
        """Has one more asked, after the others."""
        self._authenticators = (*self._authenticators, authenticator)

    def refusal(self, request: Request, resolved: ResolvedTarget, rules: TargetRules) -> Response | None:
        """Why a request is not taken, as far as its head tells; notes its sender."""
        for authenticator in self._authenticators:
            found = authenticator.authenticate(request, resolved)
            if isinstance(found, Response):
                return found
            if found is not None:
                request.sender = found
                why = None if found.is_invited else rules.why_not(found.subject)
                return None if why is None else responses.forbidden(why)
        return NO_CREDENTIALS

    def refusal_of(self, request: Request, events: Sequence[CloudEvent]) -> Response | None:
        """Why the events of a request that was let in are not taken."""
        sender, resolved = request.sender, request.resolved
        if sender is not None and sender.spend is not None:
            sender.spend(events)
        if sender is None or sender.is_invited or resolved is None or resolved.rules is None:
            return None
        why = resolved.rules.why_not_these(sender.subject, events)
        return None if why is None else responses.forbidden(why)
