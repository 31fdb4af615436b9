"""The door of a target that does not take events from everybody.

Twice it is asked: with the head of a request, so that who may not send at all is told before the body is read; and with
the events, where a policy lets a sender in with some of them only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from penstock.events.event import CloudEvent
from penstock.ingress import responses
from penstock.ingress.request import Request
from penstock.ingress.responses import Response
from penstock.ingress.senders.keys import KeyRecogniser
from penstock.ingress.senders.sender import Sender
from penstock.ingress.targets import Addressee
from penstock.resources.eventpolicy import TargetRules

NO_CREDENTIALS = responses.unauthorized(
    "this address takes events only from senders it knows; send `Authorization: Bearer` with an API key, or with a "
    "token for its audience",
    invalid=False,
)


class Recogniser(Protocol):
    """Knows senders by one kind of credentials."""

    def recognise(self, request: Request, addressee: Addressee) -> Sender | Response | None:
        """Who sends; the refusal where there are such credentials that do not hold; None where there are none."""


class Door:
    """Lets requests in, or says why not."""

    def __init__(self, recognisers: Sequence[Recogniser] | None = None) -> None:
        # Keys are known by how they begin, so they are asked for before what takes every bearer token for its own.
        self._recognisers = (KeyRecogniser(),) if recognisers is None else tuple(recognisers)

    def add(self, recogniser: Recogniser) -> None:
        """Has one more asked, after the others."""
        self._recognisers = (*self._recognisers, recogniser)

    def refusal(self, request: Request, addressee: Addressee, rules: TargetRules) -> Response | None:
        """Why a request is not taken, as far as its head tells; notes its sender."""
        for recogniser in self._recognisers:
            found = recogniser.recognise(request, addressee)
            if isinstance(found, Response):
                return found
            if found is not None:
                request.sender = found
                why = None if found.is_invited else rules.why_not(found.subject)
                return None if why is None else responses.forbidden(why)
        return NO_CREDENTIALS

    def refusal_of(self, request: Request, events: Sequence[CloudEvent]) -> Response | None:
        """Why the events of a request that was let in are not taken."""
        sender, addressee = request.sender, request.addressee
        if sender is not None and sender.spend is not None:
            sender.spend(events)
        if sender is None or sender.is_invited or addressee is None or addressee.rules is None:
            return None
        why = addressee.rules.why_not_these(sender.subject, events)
        return None if why is None else responses.forbidden(why)
