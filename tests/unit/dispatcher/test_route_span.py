"""The router's span, recorded by the dispatcher."""

from __future__ import annotations

from typing import Any

from penstock.contract import records
from penstock.contract.routes import Target
from penstock.dispatcher.delivery.route_span import record_route_span
from penstock.dispatcher.matched_record import Matched
from penstock.observability.trace import Tracer

PARENT = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
BROKER = Target("b1", "Broker", "default", "orders")


class Notes(Tracer):
    enabled = True

    def __init__(self) -> None:
        self.spans: list[dict[str, Any]] = []

    def record(self, span: str, **details: Any) -> None:
        self.spans.append({"span": span, **details})


def matched(*extra: tuple[str, bytes]) -> Matched:
    raw = [
        (f"ce_{name}", value)
        for name, value in (("specversion", b"1.0"), ("id", b"7"), ("source", b"/s"), ("type", b"t"))
    ]
    at = 1_700_000_001_500
    return Matched(0, 5, at, 9, routes=("t1", "t2"), raw=[*raw, (records.TRACE, PARENT.encode()), *extra], value=b"")


def test_the_span_runs_from_arrival_to_match_in_the_events_trace() -> None:
    notes = Notes()
    record_route_span(notes, matched(("ce_knativearrivaltime", b"2023-11-14T22:13:20.25Z")), BROKER)
    [span] = notes.spans
    assert (span["start_ns"], span["end_ns"]) == (1_700_000_000_250_000_000, 1_700_000_001_500_000_000)
    assert span["parent"] == PARENT
    assert span["span"][:35] == PARENT[:35]
    assert span["span"] != PARENT
    assert span["attributes"]["messaging.destination"] == "broker:orders.default"
    assert span["attributes"]["messaging.message_id"] == "7"
    assert span["attributes"]["penstock.routes"] == 2


def test_without_a_believable_arrival_the_span_has_only_its_end() -> None:
    for arrival in (b"yesterday", b"2099-01-01T00:00:00Z"):
        notes = Notes()
        record_route_span(notes, matched(("ce_knativearrivaltime", arrival)), BROKER)
        assert notes.spans[0]["start_ns"] == notes.spans[0]["end_ns"]


def test_what_cannot_be_read_or_placed_has_no_span() -> None:
    notes = Notes()
    record_route_span(notes, matched(), None)
    record_route_span(
        notes, Matched(0, 5, 0, 9, routes=("t1",), raw=[(records.TRACE, PARENT.encode())], value=b""), BROKER
    )
    assert notes.spans == []
