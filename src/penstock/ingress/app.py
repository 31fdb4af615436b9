"""What the ingress does with a request: it becomes records of `penstock.events`, then 202.

Requests are refused as early as possible: what is not a POST, has no target, is too large or exceeds a limit gets its
response before its body is read. A batch is all or nothing: every event is validated before the first is written, and
202 means that all of them are durable; on 503 some may be, and sending the batch again may repeat those.
"""

from __future__ import annotations

import time
from functools import partial

from penstock.contract.records import record_of, travelling
from penstock.contract.reports import SeenTypes, Tell
from penstock.events import http
from penstock.events.attributes import AttributesTooLarge, enter_broker
from penstock.events.event import CloudEvent, MalformedEvent
from penstock.ingress import responses
from penstock.ingress.authorization import SenderAuthorizer
from penstock.ingress.request import Request
from penstock.ingress.responses import Response
from penstock.ingress.storage_checks import DiskWatch, KafkaWatch
from penstock.ingress.targets import ResolvedTarget, TargetTable
from penstock.kafka.events import EventWriter, NoRoom, NotStored, RecordTooLarge
from penstock.observability import trace
from penstock.observability.metrics import Rejections
from penstock.observability.trace import messaging
from penstock.settings import Settings

PROBES = frozenset({"/livez", "/healthz", "/readyz"})


class Ingress:
    """The application."""

    def __init__(
        self,
        settings: Settings,
        log: EventWriter,
        disk: DiskWatch,
        kafka: KafkaWatch,
        tracer: trace.Tracer,
        *,
        report_type: Tell = lambda _: None,
        authorizer: SenderAuthorizer | None = None,
    ) -> None:
        self._authorizer = authorizer or SenderAuthorizer()
        self._log, self._disk, self._kafka, self._tracer = log, disk, kafka, tracer
        self._ttl = settings.broker_ttl
        self._untargeted = Rejections("", "", "")
        self.max_body_bytes = settings.max_event_bytes
        self.too_large = responses.too_large(settings.max_event_bytes)
        self.targets: TargetTable | None = None
        """None until the first snapshot has been read."""
        self.draining = False
        self.seen_types = SeenTypes(report_type)

    def early_response(self, request: Request) -> Response | None:
        """The response to what needs no body; None where the body is wanted."""
        if request.framing is not None:
            return request.framing
        if request.method != b"POST":
            return self._other(request)
        if self.targets is None:
            return responses.NOT_READY
        found = request.resolved = self.targets.find(request.url, request.headers.get("host", ""))
        if found is None:
            return responses.NOT_FOUND
        if not found.transports[request.is_secure]:
            return responses.NO_HTTPS if request.is_secure else responses.ONLY_HTTPS
        return self._refusal(request)

    def refuse(self, request: Request, response: Response) -> None:
        """Sends a response other than 202."""
        if response.status >= 400:
            (request.resolved.metrics if request.resolved is not None else self._untargeted).rejected(response.status)
        request.reply(response)

    def refuse_connection(self) -> Response:
        """The response to a client beyond the limit of connections."""
        self._untargeted.rejected(responses.NO_CONNECTION.status)
        return responses.NO_CONNECTION

    def take(self, request: Request, body: bytes) -> None:
        """Stores the events of a request; responds when they are durable, or at once where they cannot be stored."""
        resolved = request.resolved
        if resolved is None:
            raise RuntimeError("a request without a target was not refused")
        try:
            events = http.all_from_http(request.headers, body)
            http.check_sizes(events, body)
            if (
                request.sender is not None
                and (refusal := self._authorizer.refusal_of_events(request, events)) is not None
            ):
                return self.refuse(request, refusal)
            if resolved.is_broker:
                events = [enter_broker(event, self._ttl, request.started) for event in events]
        except http.UnsupportedFormat as error:
            return self.refuse(request, responses.unsupported(str(error)))
        except AttributesTooLarge as error:
            return self.refuse(request, responses.attributes_too_large(str(error)))
        except MalformedEvent as error:
            return self.refuse(request, responses.malformed(str(error)))
        if resolved.tells_types:
            self.seen_types.note(resolved.target.uid, events)
        parent = request.parent = trace.parse(request.headers.get(trace.TRACEPARENT))
        state = trace.parse_state(request.headers.get(trace.TRACESTATE)) if parent is not None else None
        request.span = self._tracer.accept(parent)
        along = travelling(resolved.uid, request.headers, request.span, state)
        traced = events[0] if self._tracer.enabled and events else None
        done = partial(self._stored, request, resolved, len(events), traced)
        try:
            self._log.store([record_of(event, along) for event in events], done)
        except (NoRoom, NotStored, RecordTooLarge) as error:
            done(error)

    def _refusal(self, request: Request) -> Response | None:
        """What can be refused without the body."""
        if request.refusal is not None:
            return request.refusal
        resolved = request.resolved
        if resolved is not None and resolved.rules is not None:
            refusal = self._authorizer.refusal(request, resolved, resolved.rules)
            if refusal is not None:
                return refusal
        if http.is_encoded(request.headers):
            return responses.ENCODED
        if request.declared_length > self.max_body_bytes:
            return self.too_large
        if self._disk.full:
            return responses.DISK_FULL
        return None if self._log.has_capacity() else responses.TOO_MANY

    def _other(self, request: Request) -> Response:
        if request.method == b"OPTIONS":
            return responses.OPTIONS
        if request.method in (b"GET", b"HEAD") and (path := request.path) in PROBES:
            return self._readiness() if path == "/readyz" else responses.HEALTHY
        return responses.METHOD_NOT_ALLOWED

    def why_unready(self) -> str | None:
        """The same as text, for the role's own `/readyz`; None: events are accepted."""
        response = self._readiness()
        return None if response.status < 400 else response.body.decode().strip()

    def _readiness(self) -> Response:
        """Whether events are accepted now, and if not, why every one would be refused."""
        if self.draining:
            return responses.DRAINING
        if self.targets is None:
            return responses.NOT_READY
        if self._disk.full:
            return responses.NOT_READY_DISK
        return responses.NOT_READY_KAFKA if self._kafka.unreachable else responses.HEALTHY

    def _stored(
        self,
        request: Request,
        resolved: ResolvedTarget,
        events: int,
        traced: CloudEvent | None,
        error: Exception | None,
    ) -> None:
        response, ended = self._response_to(error), time.time_ns()
        if error is None:
            resolved.metrics.accepted(events, (ended - request.started) / 1e9)
            request.reply(response)
        else:
            self.refuse(request, response)
        if traced is not None:
            self._tracer.record(
                request.span,
                parent=request.parent,
                kind="server",
                name=resolved.place,
                start_ns=request.started,
                end_ns=ended,
                attributes={**messaging(traced, resolved.place), "http.response.status_code": response.status},
                error=None if error is None else response.body.decode().strip(),
            )

    def _response_to(self, error: Exception | None) -> Response:
        if error is None:
            return responses.ACCEPTED
        if isinstance(error, NoRoom):
            return responses.TOO_MANY
        return self.too_large if isinstance(error, RecordTooLarge) else responses.NOT_STORED
