"""`/events/live`: live events or deliveries; a sample if there are too many to read."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from functools import partial
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.console.console import console_of
from penstock.console.events.data_view import beginning, clock
from penstock.console.events.playground_page import predicate_of
from penstock.console.events.state import events_state, places_of
from penstock.console.events.tails import Message, Nothing, Sampled, ShownRecord, Unreachable
from penstock.console.events.timeline import span_text
from penstock.console.live import message, stream
from penstock.console.pages import render
from penstock.contract import attempts
from penstock.contract.records import Unreadable
from penstock.events import kafka_binding as kafka
from penstock.events.event import MalformedEvent
from penstock.kafka.live import LiveSelection
from penstock.kafka.ranges import LogRecord
from penstock.operations.formatting import RESULTS

RETRY = b"retry: 2000\n\n"
"""So many milliseconds a browser waits before it asks again."""


async def page(request: Request) -> Response:
    """The page; an invalid filter is reported there."""
    events_state(request)
    places = await run_in_threadpool(places_of, console_of(request).api(request))
    query = request.query_params
    return render(
        request,
        "events/live.html",
        title="Live events",
        places=places,
        text=query.get("filter", ""),
        target=query.get("target", ""),
        is_deliveries=query.get("what") == "deliveries",
    )


async def follow(request: Request) -> Response:
    """`/live/events`: live events or deliveries, as server-sent events. Raises Problem for an invalid filter."""
    state, query = events_state(request), request.query_params
    selection = LiveSelection(predicate_of(query.get("filter", "")), query.get("target") or None)
    is_attempts = query.get("what") == "deliveries"
    state.tails.check_limit()
    messages = _messages(state.tails.watch(selection, is_attempts), is_attempts)
    return stream(request, messages, partial(console_of(request).only_operators, request))


async def _messages(found: AsyncGenerator[Message], is_attempts: bool) -> AsyncGenerator[bytes]:
    yield RETRY + message({"begun": True})
    try:
        async for one in found:
            if (shown := shape(one, is_attempts)) is not None:
                yield message(shown)
    finally:
        await found.aclose()


def shape(one: Message, is_attempts: bool) -> dict[str, Any] | None:
    """A message as the script of the page reads it; None: nothing to say."""
    match one:
        case ShownRecord(record):
            return _attempt_line(record) if is_attempts else _event_line(record)
        case Sampled(shown, of):
            return {"sample": {"shown": shown, "of": of}}
        case Unreachable(reason):
            return {"problem": f"Kafka cannot be read: {reason}."}
        case Nothing():
            return {"beat": True}


def _event_line(record: LogRecord) -> dict[str, Any] | None:
    try:
        event = kafka.from_headers(record.headers, record.value)
    except MalformedEvent:
        return None
    return {
        "href": f"/events/{record.partition}/{record.offset}",
        "at": clock(datetime.fromtimestamp(record.at_ms / 1000, UTC))[11:],
        "type": event.type,
        "id": event.id,
        "source": event.source,
        "more": beginning(event.data, event.attributes.get("datacontenttype", "")),
    }


def _attempt_line(record: LogRecord) -> dict[str, Any] | None:
    try:
        attempt = attempts.decode(record.value or b"")
    except Unreadable:
        return None
    route = f"{attempt.kind.lower()} {attempt.namespace}/{attempt.name}" if attempt.name else attempt.route
    answer = str(attempt.status) if attempt.status is not None else attempt.reason or "no answer"
    outcome = RESULTS.get(attempt.result, attempt.result)
    return {
        "href": f"/events/{attempt.partition}/{attempt.origin}",
        "at": clock(datetime.fromtimestamp(attempt.at, UTC))[11:],
        "type": attempt.type,
        "id": attempt.id,
        "source": route,
        "more": f"{answer} in {span_text(attempt.latency)}: {outcome}",
        "result": attempt.result,
    }


ROUTES = [Route("/events/live", page), Route("/live/events", follow)]
