"""The span of an event's way through the router: from its arrival until it was matched.

The router's query has no Python in it, so it cannot record spans. The dispatcher is the first to see that an event was
matched, and when; it records the span for the router, once for each event.
"""

from __future__ import annotations

from penstock.contract.routes import Target
from penstock.dispatcher.matched_record import Matched
from penstock.events.attributes import ARRIVAL_TIME
from penstock.events.event import MalformedEvent
from penstock.observability import trace
from penstock.runtime.times import nanoseconds_of


def record_route_span(tracer: trace.Tracer, record: Matched, target: Target | None) -> None:
    """Records the span of one matched event; an event that cannot be read has none."""
    parent = record.parent
    if parent is None or target is None:
        return
    try:
        event = record.event
    except MalformedEvent:
        return
    end = record.at * 1_000_000
    place = trace.destination(target.kind, target.namespace, target.name)
    tracer.record(
        tracer.begin(parent),
        parent=parent,
        kind="internal",
        name=f"route {place}",
        start_ns=min(_arrival_ns(event.attributes.get(ARRIVAL_TIME), end), end),
        end_ns=end,
        attributes={
            **trace.messaging(event, place, "route", "kafka"),
            "penstock.routes": len(record.routes),
        },
    )


def _arrival_ns(text: str | None, otherwise: int) -> int:
    """When the event entered its Broker; Channels leave no such mark, so their span has only its end."""
    try:
        return otherwise if text is None else nanoseconds_of(text)
    except ValueError:
        return otherwise
