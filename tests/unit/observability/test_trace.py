"""Trace context is always passed on; spans are recorded where somebody collects them."""

from __future__ import annotations

import re

import pytest

from penstock.events.event import CloudEvent
from penstock.observability import trace
from penstock.observability.trace import destination, messaging

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "nonsense",
        PARENT[:-1],
        PARENT + "-x",
        PARENT.upper(),
        "ff" + PARENT[2:],
        "00-" + "0" * 32 + PARENT[35:],
        PARENT[:36] + "0" * 16 + "-01",
        PARENT + "\n",
    ],
)
def test_what_is_no_trace_context(header: str | None) -> None:
    assert trace.parse(header) is None


def test_what_is_trace_context() -> None:
    assert trace.parse(PARENT) == PARENT
    assert trace.parse("cc" + PARENT[2:] + "-what-the-future-will-be-like") == PARENT


def test_tracestate_is_passed_on_if_it_is_harmless() -> None:
    assert trace.parse_state("a=1,b=2") == "a=1,b=2"
    assert trace.parse_state("a=1\r\nx: y") is None
    assert trace.parse_state("a=" + "1" * 600) is None


def test_without_an_exporter_spans_have_ids_only(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    tracer = trace.configure("test")
    assert not tracer.enabled
    assert tracer.accept(PARENT) == PARENT
    child = tracer.begin(PARENT)
    assert (child[:36], child[52:]) == (PARENT[:36], PARENT[52:])
    assert child != PARENT
    assert trace.parse(child) == child
    for begun in (tracer.begin(None), tracer.accept(None)):
        assert re.fullmatch(r"00-[0-9a-f]{32}-[0-9a-f]{16}-00", begun)


@pytest.mark.parametrize("flags", ["00", "01", "03", "80"])
def test_the_flags_of_the_sender_are_kept(flags: str) -> None:
    parent = PARENT[:-2] + flags
    assert trace.parse(parent) == parent
    assert trace.child_of(parent)[-2:] == flags


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, False),
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, False),
        ({"OTEL_TRACES_EXPORTER": "otlp", "OTEL_SDK_DISABLED": "true"}, False),
        ({"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, False),
        ({"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, True),
    ],
)
def test_when_spans_are_exported(environment: dict[str, str], wanted: bool) -> None:
    assert trace._wanted(environment) is wanted


def test_recorded_spans_have_the_ids_that_travelled() -> None:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    spans = InMemorySpanExporter()
    tracer = trace.ExportingTracer("test", SimpleSpanProcessor(spans), TracerProvider().sampler)
    event = CloudEvent({"specversion": "1.0", "id": "7", "source": "/s", "type": "t"})
    place = destination("Broker", "shop", "orders")
    received = tracer.accept(PARENT)
    attributes = messaging(event, place)
    tracer.record(received, parent=PARENT, kind="server", name=place, start_ns=5, end_ns=9, attributes=attributes)
    unsampled = tracer.begin(PARENT[:-2] + "00")
    tracer.record(unsampled, parent=None, kind="client", name="x", start_ns=1, end_ns=2, attributes={}, error="lost")
    root = tracer.begin(None)
    tracer.record(root, parent=None, kind="client", name="root", start_ns=1, end_ns=2, attributes={}, error="refused")
    first, second = spans.get_finished_spans()
    assert first.context is not None
    assert first.parent is not None
    assert f"{first.context.trace_id:032x}" == PARENT[3:35]
    assert f"{first.context.span_id:016x}" == received[36:52]
    assert f"{first.parent.span_id:016x}" == PARENT[36:52]
    assert (first.name, first.start_time, first.end_time) == ("broker:orders.shop", 5, 9)
    assert dict(first.attributes or {}) == {
        "messaging.system": "knative",
        "messaging.destination": "broker:orders.shop",
        "messaging.destination.name": "broker:orders.shop",
        "messaging.protocol": "http",
        "messaging.message_id": "7",
        "messaging.operation.name": "send",
        "cloudevents.id": "7",
        "cloudevents.source": "/s",
        "cloudevents.type": "t",
        "cloudevents.specversion": "1.0",
    }
    assert (second.name, second.parent, second.status.description) == ("root", None, "refused")
