"""The ASGI application of the ingress: a request becomes records of `penstock.events`, then 202.

Refusals come as early as they can: what is not POST, has no target, is too large or finds no room is answered before
its body is read. A batch is all or nothing: every event is validated before the first is written, and 202 means that
all of them are durable; on 503 some may be, and sending the batch again may double those, as at-least-once allows.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from penstock.events import http
from penstock.events.broker_attributes import enter_broker
from penstock.events.event import CloudEvent, MalformedEvent
from penstock.ingress import answers
from penstock.ingress.answers import Answer
from penstock.ingress.event_log import EventLog, NoRoom, NotStored, RecordTooLarge
from penstock.ingress.record import record_of, travelling
from penstock.ingress.room import DiskWatch
from penstock.ingress.targets import Addressee, TargetTable
from penstock.observability import trace
from penstock.observability.metrics import Rejections
from penstock.observability.span_attributes import messaging
from penstock.settings import Settings

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

BODY_SECONDS = 30.0
"""Time for a body to arrive once its request has begun."""

HEAD_BYTES = 64 * 1024
"""All headers of a request together."""

PROBES = frozenset({"/livez", "/healthz", "/readyz"})


class BodyTooLarge(Exception):
    """There is more of it than an event may have."""


class BodyCutOff(Exception):
    """The client went away before it had sent all; nobody reads the answer."""


class Ingress:
    """The application."""

    def __init__(self, settings: Settings, log: EventLog, disk: DiskWatch, tracer: trace.Tracer) -> None:
        self._log, self._disk, self._tracer = log, disk, tracer
        self._max_bytes, self._ttl = settings.max_event_bytes, settings.broker_ttl
        self._too_large = answers.too_large(settings.max_event_bytes)
        self._untargeted = Rejections("", "", "")
        self.targets: TargetTable | None = None
        """None until the snapshot has been read: until then nobody can tell which targets there are."""
        self.draining = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "POST":
            answer = await self._post(scope, receive)
        else:
            answer = self._other(scope["method"], scope["path"])
        if self.draining:
            answer = answer.closing()
        await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
        await send({"type": "http.response.body", "body": answer.body})

    def _other(self, method: str, path: str) -> Answer:
        if method == "OPTIONS":
            return answers.OPTIONS
        if method in ("GET", "HEAD") and path in PROBES:
            is_ready = self.targets is not None and not self.draining
            return answers.HEALTHY if is_ready or path != "/readyz" else answers.NOT_READY
        self._untargeted.rejected(405)
        return answers.METHOD_NOT_ALLOWED

    async def _post(self, scope: Scope, receive: Receive) -> Answer:
        started = time.time_ns()
        host, length, size = _outline(scope["headers"])
        if self.targets is None:
            self._untargeted.rejected(503)
            return answers.NOT_READY
        addressee = self.targets.find(scope["path"], host)
        if addressee is None:
            self._untargeted.rejected(404)
            return answers.NOT_FOUND
        answer = self._refusal(length, size)
        if answer is None:
            try:
                async with asyncio.timeout(BODY_SECONDS):
                    body = await _read(receive, self._max_bytes)
                answer = await self._accept(addressee, scope, body, started)
            except BodyTooLarge:
                answer = self._too_large
            except BodyCutOff:
                answer = answers.BODY_CUT_OFF
            except TimeoutError:
                answer = answers.BODY_TIMEOUT
        if answer is not answers.ACCEPTED:
            addressee.metrics.rejected(answer.status)
        return answer

    def _refusal(self, length: int, head: int) -> Answer | None:
        """What can be refused without the body."""
        if length > self._max_bytes:
            return self._too_large
        if head > HEAD_BYTES:
            return answers.HEAD_TOO_LARGE
        if self._disk.full:
            return answers.DISK_FULL
        return None if self._log.has_room() else answers.TOO_MANY

    async def _accept(self, addressee: Addressee, scope: Scope, body: bytes, started: int) -> Answer:
        try:
            headers = http.fold_headers(scope["headers"])
            events = http.all_from_http(headers, body)
            if addressee.is_broker:
                events = [enter_broker(event, self._ttl, started) for event in events]
        except http.UnsupportedFormat as error:
            return answers.unsupported(str(error))
        except MalformedEvent as error:
            return answers.malformed(str(error))
        parent = trace.parse(headers.get(trace.TRACEPARENT))
        state = trace.parse_state(headers.get(trace.TRACESTATE)) if parent is not None else None
        span = self._tracer.accept(parent)
        along = travelling(addressee.uid, headers, span, state)
        answer = await self._store(events, along)
        ended = time.time_ns()
        if answer is answers.ACCEPTED:
            addressee.metrics.accepted(len(events), (ended - started) / 1e9)
        if self._tracer.enabled and events:
            self._tracer.record(
                span,
                parent=parent,
                kind="server",
                name=addressee.place,
                start_ns=started,
                end_ns=ended,
                attributes={**messaging(events[0], addressee.place), "http.response.status_code": answer.status},
                error=None if answer is answers.ACCEPTED else answer.body.decode().strip(),
            )
        return answer

    async def _store(self, events: list[CloudEvent], along: list[tuple[str, bytes]]) -> Answer:
        try:
            await self._log.store([record_of(event, along) for event in events])
        except NoRoom:
            return answers.TOO_MANY
        except NotStored:
            return answers.NOT_STORED
        except RecordTooLarge:
            return self._too_large
        return answers.ACCEPTED


def _outline(headers: list[tuple[bytes, bytes]]) -> tuple[bytes, int, int]:
    """Host, declared length and size of the headers."""
    host, length, size = b"", 0, 0
    for name, value in headers:
        size += len(name) + len(value)
        if name == b"host":
            host = value
        elif name == b"content-length":
            length = int(value)  # the parser has let digits through only
    return host, length, size


async def _read(receive: Receive, limit: int) -> bytes:
    """The whole body. Raises BodyTooLarge or BodyCutOff."""
    message = await receive()
    body: bytes = message.get("body", b"")
    if message["type"] == "http.request" and not message.get("more_body", False):
        if len(body) > limit:
            raise BodyTooLarge
        return body
    chunks, size = [body], len(body)
    while message.get("more_body", False) and size <= limit:
        message = await receive()
        chunk = message.get("body", b"")
        size += len(chunk)
        chunks.append(chunk)
    if size > limit:
        raise BodyTooLarge
    if message["type"] != "http.request":
        raise BodyCutOff
    return b"".join(chunks)
