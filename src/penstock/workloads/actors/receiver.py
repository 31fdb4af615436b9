"""The receiver: an HTTP server that accepts or rejects events as configured, sends replies, and reports all events.

The report is written before the response, so that a sender that has the response can read the report.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from penstock.events import http, media_type
from penstock.events.event import CloudEvent, MalformedEvent
from penstock.runtime.times import rfc3339_nano
from penstock.workloads.actors import options
from penstock.workloads.actors.reporting import EventInfo, Kind, Reports, reported_headers
from penstock.workloads.server import BodyTooLarge, body_of

READY_PATH = "/health/ready"
MOST_BYTES = 16 * 1024 * 1024

Review = Callable[[str, str], Awaitable[Mapping[str, Any] | None]]
"""(token, audience) -> the user of the token; None if it is invalid or for another audience."""


class RequestRefused(Exception):
    """The request is rejected with a status."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class Receiver:
    """An ASGI application."""

    def __init__(self, name: str, wanted: options.ReceiverOptions, reports: Reports, review: Review) -> None:
        self._name, self._wanted, self._reports, self._review = name, wanted, reports, review
        self._skips = wanted.skips()
        self._arrived = count(1)
        self._numbers: dict[Kind, count[int]] = {"Received": count(1), "Rejected": count(1)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        response = await self._answer(request)
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        if request.url.path == READY_PATH or request.method == "HEAD":
            return Response(status_code=200)
        try:
            body = await body_of(request, MOST_BYTES)
        except BodyTooLarge:
            return Response(status_code=413)
        event, error = self._parse(request, body)
        user, refused = None, None
        try:
            user = await self._admitted(request)
        except RequestRefused as refusal:
            refused, error = refusal, str(refusal)
        skipped = self._skips(next(self._arrived))
        kind: Kind = "Rejected" if skipped or refused else "Received"
        info = EventInfo(
            kind=kind,
            observer=self._name,
            time=rfc3339_nano(),
            sequence=next(self._numbers[kind]),
            event=event,
            error=error,
            headers=reported_headers(request.headers.items()),
            body=b"" if event else body,
            status=refused.status if refused else 0,
            user=user,
            origin=f"{request.client.host}:{request.client.port}" if request.client else "",
        )
        await self._reports.report(info)
        if self._wanted.wait:
            await asyncio.sleep(self._wanted.wait)
        if refused:
            return Response(status_code=refused.status)
        if skipped:
            headers = dict(self._wanted.skip_headers)
            return Response(self._wanted.skip_body, self._wanted.skip_code, headers)
        return self._reply(event)

    async def _admitted(self, request: Request) -> Mapping[str, Any] | None:
        """The sender; None without authentication. Raises RequestRefused."""
        if self._wanted.certificates and request.url.scheme != "https":
            raise RequestRefused(400, f"failed to enforce TLS connection for request {request.url.path}")
        if not self._wanted.audience:
            return None
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme != "Bearer" or not token:
            raise RequestRefused(401, "could not get Bearer token from header")
        user = await self._review(token, self._wanted.audience)
        if user is None:
            raise RequestRefused(401, "user not authenticated")
        return user

    def _parse(self, request: Request, body: bytes) -> tuple[CloudEvent | None, str]:
        try:
            headers = http.fold_headers(request.scope["headers"])
            mode = http.content_mode(headers)
            event = http.from_http(headers, body)
        except MalformedEvent as malformed:
            return None, str(malformed)
        if self._wanted.format and mode != self._wanted.format:
            return event, f"the event is in {mode} mode, {self._wanted.format} was expected"
        return event, ""

    def _reply(self, event: CloudEvent | None) -> Response:
        if not self._wanted.reply:
            return Response(status_code=202)
        if event is None:
            return Response(status_code=400)
        reply = reply_to(event, self._wanted)
        self._reports.say(f"replying with the event {reply.id} of type {reply.type} and source {reply.source}")
        headers, body = http.to_binary(reply)
        response = Response(body, 200)
        for name, value in headers:
            response.headers[name] = value
        return response


def reply_to(event: CloudEvent, wanted: options.ReceiverOptions) -> CloudEvent:
    """The event with the replacements of the options; all other attributes stay."""
    data, changes = event.data, {}
    if wanted.reply_type:
        changes["type"] = wanted.reply_type
    if wanted.reply_source:
        changes["source"] = wanted.reply_source
    if wanted.reply_data:
        data = wanted.reply_data.encode()
        changes["datacontenttype"] = "application/json"
    if wanted.reply_append:
        data = ((_text_of(event) if data else "") + wanted.reply_append).encode()
        changes["datacontenttype"] = "text/plain"
    return CloudEvent({**event.attributes, **changes}, data)


def _text_of(event: CloudEvent) -> str:
    """The data as the Go SDK converts it to a string: a JSON string or plain text, otherwise empty."""
    parsed = media_type.parse(event.attributes.get("datacontenttype") or "application/json")
    kind, data = parsed.essence if parsed else "", event.data or b""
    if kind == "text/plain":
        return data.decode(errors="replace")
    if kind not in ("application/json", "text/json"):
        return ""
    try:
        return msgspec.json.decode(data, type=str)
    except msgspec.MsgspecError:
        return ""
