"""Checks of requests to sinks of the control plane: the sender's token, EventPolicies, and the event itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response

from penstock.events import http
from penstock.events.attributes import AttributesTooLarge
from penstock.events.event import CloudEvent, MalformedEvent
from penstock.resources.eventpolicy import SinkGuard, TargetRules
from penstock.runtime.tasks import TaskScope
from penstock.settings import Settings

if TYPE_CHECKING:
    from penstock.oidc.verifier import TokenRefused, Verifier

Subject = Callable[[str, str], Awaitable["str | TokenRefused"]]
"""The subject of a token, if it is valid for the audience. (token, audience)"""

KEYS_SECONDS = 5.0
"""How long a request waits for the keys of issuers."""
CHECK_SECONDS = 0.05


class RequestRejected(Exception):
    """The request is rejected, with this response."""

    def __init__(self, response: int | Response, why: str = "") -> None:
        super().__init__(why)
        if isinstance(response, int):
            headers = {"www-authenticate": "Bearer"} if response == 401 else None
            response = PlainTextResponse(f"{why}\n", response, headers)
        self.response = response


async def sender_of(request: Request, guard: SinkGuard, subject: Subject) -> str:
    """The sender; empty where everyone may send. Raises RequestRejected."""
    if not guard.accepts(request.url.scheme):
        raise RequestRejected(404, f"transport-encryption is {guard.transport}: the address is in the status")
    if guard.rules is None:
        return ""
    audience = guard.rules.access.audience
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        raise RequestRejected(401, f'send `Authorization: Bearer` with a token for the audience "{audience}"')
    found = await subject(token.strip(), audience)
    if not isinstance(found, str):
        raise RequestRejected(503 if found.is_passing else 401, found.reason)
    why = guard.rules.why_not(found)
    if why is not None:
        raise RequestRejected(403, why)
    return found


def check_event(rules: TargetRules | None, sender: str, event: CloudEvent) -> None:
    """Raises RequestRejected where the sender may not send this event."""
    why = None if rules is None else rules.why_not_these(sender, [event])
    if why is not None:
        raise RequestRejected(403, why)


async def event_of(request: Request, most_bytes: int) -> CloudEvent:
    """The event. Raises RequestRejected."""
    return read_event(request, await body_of(request, most_bytes))


async def body_of(request: Request, most_bytes: int) -> bytes:
    """The body, at most so many bytes of it. Raises RequestRejected."""
    encodings = request.headers.getlist(http.CONTENT_ENCODING)
    if http.is_encoded({http.CONTENT_ENCODING: ", ".join(encodings)}):
        why = "events must be sent without a Content-Encoding\n"
        raise RequestRejected(PlainTextResponse(why, 415, {"accept-encoding": "identity"}))
    body = b""
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > most_bytes:
                raise RequestRejected(413, f"an event may have {most_bytes} bytes")
    except ClientDisconnect:
        raise RequestRejected(400, "the client is gone") from None
    return body


def read_event(request: Request, body: bytes) -> CloudEvent:
    """The event of a request with this body. Raises RequestRejected."""
    try:
        event = http.from_http(http.fold_headers(request.scope["headers"]), body)
        http.check_sizes([event], body)
    except AttributesTooLarge as error:
        raise RequestRejected(413, str(error)) from None
    except MalformedEvent as error:
        raise RequestRejected(400, str(error)) from None
    return event


class SinkTokens:
    """Verifies tokens. The libraries are imported, and the keys of issuers fetched, with the first one."""

    def __init__(self, settings: Settings, owner: TaskScope) -> None:
        self._settings, self._owner = settings, owner
        self._verifier: Verifier | None = None

    async def subject(self, token: str, audience: str) -> str | TokenRefused:
        """The subject of the token, if it is valid now for this audience; waits for keys that are being fetched."""
        from penstock.oidc.verifier import TokenRefused

        verifier, loop = self._begun(), asyncio.get_running_loop()
        deadline = loop.time() + KEYS_SECONDS
        while True:
            found = verifier.subject(token, audience)
            if not isinstance(found, TokenRefused) or not found.is_passing or loop.time() >= deadline:
                return found
            await asyncio.sleep(CHECK_SECONDS)

    def _begun(self) -> Verifier:
        if self._verifier is None:
            from penstock.oidc.issuers import issuers_of
            from penstock.oidc.verifier import Verifier

            issuers = issuers_of(self._settings)
            issuers.want()
            self._owner.start(issuers.run(), "keys of issuers")
            self._verifier = Verifier(issuers)
        return self._verifier
