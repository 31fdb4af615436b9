"""W3C trace context, and spans where a collector is configured.

Trace context is always passed on: a new span id is a few random bits in a string. Only where the standard variables of
OpenTelemetry name an exporter is its SDK loaded; then a finished span is handed to a batching exporter. A span's id is
made before the work (it travels with the request) and its record after it, so there is no 'current span' to keep.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import structlog

from penstock.events.event import CloudEvent

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SpanProcessor
    from opentelemetry.sdk.trace.sampling import Sampler
    from opentelemetry.trace import SpanContext

log = structlog.get_logger()

Kind = Literal["server", "client", "producer", "consumer", "internal"]
Attributes = Mapping[str, str | int | float | bool]

TRACEPARENT = "traceparent"
TRACESTATE = "tracestate"

_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?")
_TRACESTATE_LIMIT = 512
_TRACE_END, _SPAN_END = 36, 52
"""In `00-<trace id>-<span id>-<flags>`: where the span id begins and ends."""
_NOT_SAMPLED, _SAMPLED = 0x00, 0x01


def parse(header: str | None) -> str | None:
    """The `traceparent` as version 00 writes it; None if there is none or it is invalid."""
    if not header or _TRACEPARENT.fullmatch(header) is None or (header[:2] == "00" and len(header) != 55):
        return None
    return "00" + header[2:55]


def parse_state(header: str | None) -> str | None:
    """The `tracestate` if it may be passed on."""
    if header and len(header) <= _TRACESTATE_LIMIT and header.isascii() and header.isprintable():
        return header
    return None


def child_of(parent: str) -> str:
    """A new span in the parent's trace."""
    return f"{parent[:_TRACE_END]}{random.getrandbits(64) or 1:016x}{parent[_SPAN_END:]}"


def new_trace(flags: int) -> str:
    """The first span of a new trace."""
    trace, span = random.getrandbits(128) or 1, random.getrandbits(64) or 1
    return f"00-{trace:032x}-{span:016x}-{flags:02x}"


class Tracer:
    """Makes span ids, and forgets spans: what is used where no exporter is configured."""

    enabled = False
    """Whether recording has any effect; ask before gathering attributes."""

    def begin(self, parent: str | None) -> str:
        """The `traceparent` of a new span: a child of the parent, or the first of a new trace."""
        return child_of(parent) if parent is not None else new_trace(_NOT_SAMPLED)

    def accept(self, parent: str | None) -> str:
        """The `traceparent` for received work: the sender's own unless a span is recorded in between."""
        return parent if parent is not None else new_trace(_NOT_SAMPLED)

    def record(
        self,
        span: str,
        *,
        parent: str | None,
        kind: Kind,
        name: str,
        start_ns: int,
        end_ns: int,
        attributes: Attributes,
        error: str | None = None,
    ) -> None:
        """The span `span` (from `begin` or `accept`) is over; times are Unix time in nanoseconds."""

    def close(self) -> None:
        """Sends what has not been sent yet. May block for seconds: call it off the event loop."""


class ExportingTracer(Tracer):
    """Hands finished spans to OpenTelemetry's exporter."""

    enabled = True

    def __init__(self, service_name: str, processor: SpanProcessor, sampler: Sampler) -> None:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope
        from opentelemetry.trace import SpanKind

        self._processor, self._sampler = processor, sampler
        self._resource = Resource.create({"service.name": os.environ.get("OTEL_SERVICE_NAME", service_name)})
        self._scope = InstrumentationScope("penstock")
        self._kinds = {kind.name.lower(): kind for kind in SpanKind}

    def begin(self, parent: str | None) -> str:
        return child_of(parent) if parent is not None else self._new_trace()

    def accept(self, parent: str | None) -> str:
        return self.begin(parent)

    def record(
        self,
        span: str,
        *,
        parent: str | None,
        kind: Kind,
        name: str,
        start_ns: int,
        end_ns: int,
        attributes: Attributes,
        error: str | None = None,
    ) -> None:
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.trace import Status, StatusCode

        if not int(span[53:], 16) & 1:
            return
        self._processor.on_end(
            ReadableSpan(
                name,
                context=_context(span, remote=False),
                parent=None if parent is None else _context(parent, remote=True),
                resource=self._resource,
                attributes=attributes,
                kind=self._kinds[kind],
                status=Status(StatusCode.UNSET) if error is None else Status(StatusCode.ERROR, error),
                start_time=start_ns,
                end_time=end_ns,
                instrumentation_scope=self._scope,
            )
        )

    def close(self) -> None:
        self._processor.shutdown()

    def _new_trace(self) -> str:
        from opentelemetry.sdk.trace.sampling import Decision

        span = new_trace(_SAMPLED)
        decision = self._sampler.should_sample(None, int(span[3:35], 16), "receive").decision
        return span if decision is Decision.RECORD_AND_SAMPLE else span[:-2] + "00"


def configure(service_name: str) -> Tracer:
    """The tracer that OpenTelemetry's variables ask for; docs/observability.md lists them."""
    if not _wanted(os.environ):
        return Tracer()
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter

    exporter: SpanExporter
    if os.environ.get("OTEL_TRACES_EXPORTER", "otlp").strip() == "console":
        exporter = ConsoleSpanExporter()
    else:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        exporter = OTLPSpanExporter()
    return ExportingTracer(service_name, BatchSpanProcessor(exporter), TracerProvider().sampler)


def _wanted(environment: Mapping[str, str]) -> bool:
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    exporter = environment.get("OTEL_TRACES_EXPORTER", "").strip()
    if exporter not in ("", "otlp", "console", "none"):
        log.error("spans are not exported: the exporter is unknown", exporter=exporter, known="otlp, console, none")
        return False
    endpoint = environment.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") or environment.get("OTEL_EXPORTER_OTLP_ENDPOINT")
    wanted = exporter in ("otlp", "console") or (exporter == "" and bool(endpoint))
    protocol = environment.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or environment.get("OTEL_EXPORTER_OTLP_PROTOCOL")
    if wanted and exporter != "console" and protocol not in (None, "http/protobuf"):
        log.error("spans are not exported: only OTLP over http/protobuf is supported", protocol=protocol)
        return False
    return wanted


def _context(traceparent: str, remote: bool) -> SpanContext:
    from opentelemetry.trace import SpanContext, TraceFlags

    return SpanContext(
        int(traceparent[3:35], 16),
        int(traceparent[_TRACE_END:_SPAN_END], 16),
        is_remote=remote,
        trace_flags=TraceFlags(int(traceparent[53:55], 16)),
    )


_EVENT_ATTRIBUTES = ("id", "source", "specversion", "type", "subject")


def destination(kind: str, namespace: str, name: str) -> str:
    """`broker:name.namespace`, `trigger:name.namespace` and so on."""
    return f"{kind.lower()}:{name}.{namespace}"


def messaging(event: CloudEvent, destination: str, operation: str = "send", protocol: str = "http") -> dict[str, str]:
    """The attributes of every span: `destination` is the result of `destination`."""
    attributes = {
        "messaging.system": "knative",
        "messaging.destination": destination,
        "messaging.destination.name": destination,
        "messaging.protocol": protocol,
        "messaging.message_id": event.id,
        "messaging.operation.name": operation,
    }
    for name in _EVENT_ATTRIBUTES:
        if (value := event.attributes.get(name)) is not None:
            attributes["cloudevents." + name] = value
    return attributes
