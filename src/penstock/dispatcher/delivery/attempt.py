"""One attempt: compose the request, send it, and return its outcome. Never raises for what a peer does."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import lru_cache

import msgspec

from penstock.contract import records as stored
from penstock.contract.names import NameTable
from penstock.contract.routes import Endpoint, Route, Target
from penstock.dispatcher.cursors.cursor import STAGE_NAMES, Stage
from penstock.dispatcher.cursors.stage_payload import StagePayload, reply_payload
from penstock.dispatcher.delivery.credentials import DeliveryCredentials, NeverSent
from penstock.dispatcher.delivery.decision import Verdict, destination, expects_reply
from penstock.dispatcher.delivery.replies import ReplyNotStored, ReplyWriter
from penstock.dispatcher.delivery.request import (
    NO_RESPONSE,
    content,
    error_data,
    no_response_data,
    passed_from_response,
    request,
)
from penstock.dispatcher.delivery.route_span import record_route_span
from penstock.dispatcher.http.client import SubscriberClient, Unsendable
from penstock.dispatcher.http.connection import NoConnection, NoResponse, SubscriberResponse
from penstock.dispatcher.http.outcome import Outcome, classify
from penstock.dispatcher.matched_record import Matched
from penstock.events import http
from penstock.events.attributes import TTL, TooManyHops
from penstock.events.event import CloudEvent, MalformedEvent
from penstock.observability import trace

BAD_GATEWAY = 502
"""`knativeerrorcode` where the response is an invalid event."""
UNAUTHORIZED = 401
UNAVAILABLE = 503
"""`knativeerrorcode` where a reply could not be stored."""

NOWHERE = Endpoint("")


class AttemptResult(msgspec.Struct, frozen=True):
    """The outcome of an attempt."""

    verdict: Verdict
    url: str
    latency: float
    code: int = 0
    """`knativeerrorcode` if this was the last attempt."""
    data: str = ""
    """`knativeerrordata` likewise."""
    payload: StagePayload | None = None
    """The reply, where it has a stage of its own."""
    stored: bool = False
    """Whether a reply was stored in the Broker."""
    discarded: bool = False
    """Whether there was a body that is not an event, or a reply without a destination."""
    unreached: bool = False
    """Whether no connection could be made."""


class _Exchange(msgspec.Struct, frozen=True):
    """A request that got a response, with what is needed to evaluate it."""

    route: Route
    record: Matched
    endpoint: Endpoint
    span: str
    counts: bool
    """Whether an event in the response is a reply."""
    begun: float

    def report(
        self,
        verdict: Verdict,
        *,
        code: int = 0,
        data: str = "",
        payload: StagePayload | None = None,
        stored: bool = False,
        discarded: bool = False,
    ) -> AttemptResult:
        latency = time.perf_counter() - self.begun
        return AttemptResult(verdict, self.endpoint.shown, latency, code, data, payload, stored, discarded)

    def failed(self, status: int, reason: str, code: int) -> AttemptResult:
        """A successful response that turned out to be a failure."""
        verdict = Verdict(Outcome.RETRYABLE, status, reason=reason)
        return self.report(verdict, code=code, data=error_data(reason.encode()))


class AttemptSender:
    """Makes attempts."""

    def __init__(
        self,
        clients: SubscriberClient,
        store: ReplyWriter,
        tracer: trace.Tracer,
        default_timeout: float,
        max_event_bytes: int,
        *,
        credentials: DeliveryCredentials,
    ) -> None:
        self._clients, self._store, self._tracer = clients, store, tracer
        self._credentials = credentials
        self._default_timeout, self._max_event_bytes = default_timeout, max_event_bytes
        self.names = NameTable()

    def routed(self, record: Matched, targets: Mapping[str, Target]) -> None:
        """Records the router's span of an event that was read for the first time."""
        if self._tracer.enabled and record.routes:
            record_route_span(self._tracer, record, targets.get(record.header(stored.TARGET) or ""))

    async def attempt(self, route: Route, stage: Stage, record: Matched, payload: StagePayload | None) -> AttemptResult:
        """Sends the event to the destination of its stage. Raises Withheld where no attempt can be made for now."""
        begun = time.perf_counter()
        endpoint = destination(route, stage)
        if endpoint is None:
            return _refused("there is no destination for it", NOWHERE, begun)
        start_ns = time.time_ns() if self._tracer.enabled else 0
        try:
            span = self._tracer.begin(record.parent)
            lines, body = request(route, stage, record, payload, traceparent=span)
        except (KeyError, ValueError) as problem:
            return _refused(f"the stored event cannot be sent: {problem!r}", endpoint, begun)
        seconds = route.delivery.timeout or self._default_timeout
        certificate = None
        if route.client_certificate is not None:
            certificate = self._credentials.certificate(route)
        try:
            if route.signing is not None or (route.account and endpoint.audience):
                lines += await self._credentials.lines(route, endpoint, stage, record, payload=payload, body=body)
        except NeverSent as problem:
            return _no_response(NoResponse(str(problem)), endpoint, begun)
        counts = expects_reply(route, stage)
        try:
            response = await self._clients.post(
                endpoint,
                self.names,
                lines,
                body,
                namespace=route.namespace,
                seconds=seconds,
                reply_counts=counts,
                certificate=certificate,
            )
        except NoResponse as problem:
            report = _no_response(problem, endpoint, begun)
        except Unsendable as problem:
            report = _refused(str(problem), endpoint, begun)
        else:
            if 200 <= response.status <= 299 and not response.headers and not response.body:
                # A status and nothing else: the outcome of nearly all deliveries.
                report = AttemptResult(_delivered(response.status), endpoint.shown, time.perf_counter() - begun)
            else:
                report = await self._evaluate(_Exchange(route, record, endpoint, span, counts, begun), response)
        if self._tracer.enabled:
            event, _ = content(stage, record, payload)
            self._trace(route, event, stage, report, span=span, parent=record.parent, start=start_ns)
        return report

    async def _evaluate(self, exchange: _Exchange, response: SubscriberResponse) -> AttemptResult:
        if response.status == UNAUTHORIZED:
            self._credentials.token_refused(exchange.route, exchange.endpoint.audience)
        outcome = classify(response.status)
        if outcome is not Outcome.DELIVERED:
            reason = f"HTTP status {response.status}"
            verdict = Verdict(outcome, response.status, response.headers.get("retry-after"), reason=reason)
            return exchange.report(verdict, code=response.status, data=error_data(response.error_body()))
        delivered = Verdict(outcome, response.status)
        if not exchange.counts or not response.headers or not http.is_event(response.headers):
            discarded = exchange.counts and response.status != 202 and bool(response.body)
            return exchange.report(delivered, discarded=discarded)
        try:
            body = response.event_body()
            reply = http.from_http(response.headers, body)
            http.check_sizes([reply], body)
        except MalformedEvent as problem:
            reason = f"the response is an invalid event: {problem}"
            return exchange.failed(response.status, reason, BAD_GATEWAY)
        return await self._take_reply(exchange, reply, response)

    async def _take_reply(self, exchange: _Exchange, reply: CloudEvent, response: SubscriberResponse) -> AttemptResult:
        route = exchange.route
        passed = passed_from_response(response.headers.items())
        if route.role == "Subscription":
            if route.reply is None:
                return exchange.report(Verdict(Outcome.DELIVERED, response.status), discarded=True)
            if len(reply.data or b"") > self._max_event_bytes:
                reason = f"the reply is larger than an event may be ({self._max_event_bytes} bytes)"
                return exchange.failed(response.status, reason, UNAVAILABLE)
            verdict = Verdict(Outcome.DELIVERED, response.status, replied=True)
            return exchange.report(verdict, payload=reply_payload(reply, passed))
        ttl = exchange.record.event.attributes.get(TTL)
        try:
            await self._store.store(
                route.target,
                reply,
                ttl,
                passed,
                span=exchange.span,
                tracestate=exchange.record.header(stored.TRACE_STATE),
            )
        except TooManyHops:
            return exchange.report(Verdict(Outcome.DELIVERED, response.status), discarded=True)
        except ReplyNotStored as problem:
            return exchange.failed(response.status, str(problem), UNAVAILABLE)
        return exchange.report(Verdict(Outcome.DELIVERED, response.status), stored=True)

    def _trace(
        self,
        route: Route,
        event: CloudEvent,
        stage: Stage,
        report: AttemptResult,
        *,
        span: str,
        parent: str | None,
        start: int,
    ) -> None:
        destination_name = trace.destination(route.kind, route.namespace, route.name)
        attributes: dict[str, str | int | float | bool] = {**trace.messaging(event, destination_name)}
        attributes["url.full"] = report.url
        attributes["penstock.stage"] = STAGE_NAMES[stage]
        if report.verdict.status is not None:
            attributes["http.response.status_code"] = report.verdict.status
        self._tracer.record(
            span,
            parent=parent,
            kind="client",
            name=destination_name,
            start_ns=start,
            end_ns=start + int(report.latency * 1e9),
            attributes=attributes,
            error=None if report.verdict.outcome is Outcome.DELIVERED else report.verdict.reason,
        )


@lru_cache(maxsize=100)
def _delivered(status: int) -> Verdict:
    return Verdict(Outcome.DELIVERED, status)


def _no_response(problem: NoResponse, endpoint: Endpoint, begun: float) -> AttemptResult:
    latency, reason = time.perf_counter() - begun, str(problem)
    verdict = Verdict(Outcome.RETRYABLE, reason=reason, cause=problem.cause)
    unreached = isinstance(problem, NoConnection)
    return AttemptResult(verdict, endpoint.shown, latency, NO_RESPONSE, no_response_data(reason), unreached=unreached)


def _refused(reason: str, endpoint: Endpoint, begun: float) -> AttemptResult:
    latency = time.perf_counter() - begun
    return AttemptResult(
        Verdict(Outcome.REFUSED, reason=reason), endpoint.shown, latency, NO_RESPONSE, no_response_data(reason)
    )
