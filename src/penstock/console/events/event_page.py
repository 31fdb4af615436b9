"""`/events/PARTITION/OFFSET`: one event, its delivery attempts, and the other events of its trace."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.console.console import console_of
from penstock.console.events.data_view import clock, size, view_of
from penstock.console.events.resending import (
    account_of,
    as_curl,
    as_json,
    cloud_event,
    disposition,
    file_name,
    send_again,
)
from penstock.console.events.search_page import blind_spots
from penstock.console.events.state import AcceptingTarget, EventsState, events_state, places_of
from penstock.console.events.timeline import STAGES, span_text, timeline_of
from penstock.console.pages import back, form, render
from penstock.events.event import CloudEvent
from penstock.filters.parse import InvalidFilter, parse
from penstock.filters.reasons import Step, steps_of
from penstock.history.reader.answers import Attempt, Event, Traced
from penstock.history.reader.history import History
from penstock.kube.kinds import Obj
from penstock.operations.cluster_api import TRIGGERS, ClusterApi, NotThere, is_paused
from penstock.operations.formatting import RESULTS, result_text, route_text
from penstock.runtime.errors import UserError

MOST_ATTEMPTS = 200
MOST_ROUTES = 100
MOST_RELATED = 50
CURL_LIMIT = 16 * 1024
"""Longer commands are not shown: the data can be downloaded instead."""


@dataclass(frozen=True)
class Story:
    """An event with its attempts and its parents."""

    traced: Traced
    parents: list[Event]
    notes: list[str]


@dataclass(frozen=True)
class AttemptRow:
    """An attempt in the table."""

    number: int
    attempt: Attempt
    after: str
    route: str
    stage: str
    outcome: str
    due: str


@dataclass(frozen=True)
class Untouched:
    """A route of the event's Broker without an attempt, and why that may be."""

    name: str
    namespace: str
    passes: bool
    why: str
    steps: list[Step]


@dataclass(frozen=True)
class Relative:
    """An event of the same trace."""

    event: Event
    depth: int
    at: str


def story_of(history: History, state: EventsState, partition: int, offset: int) -> Story | None:
    """Everything about one event; None where nothing is known of it."""
    event = history.event_at(partition, offset)
    if event is None:
        return None
    return Story(history.trace_of(event), history.parents(event), blind_spots(history, state.settings))


def rows_of(event: Event, attempts: Sequence[Attempt]) -> list[AttemptRow]:
    """The attempts as the table shows them."""
    return [
        AttemptRow(
            number,
            attempt,
            f"+{span_text(max(0.0, (attempt.start - event.arrival).total_seconds()))}",
            route_text(attempt),
            STAGES.get(attempt.stage, attempt.stage) or "the subscriber",
            result_text(attempt, span_text(attempt.duration)),
            clock(attempt.due) if attempt.due is not None else "",
        )
        for number, attempt in enumerate(attempts[:MOST_ATTEMPTS], 1)
    ]


def relatives(parents: Sequence[Event], traced: Traced) -> tuple[list[Relative], list[Relative]]:
    """Earlier events of its trace, the oldest first, and the events caused by it, as a tree."""
    before = [Relative(event, 0, clock(event.arrival)) for event in reversed(parents[:MOST_RELATED])]
    after = [Relative(one.event, depth, clock(one.event.arrival)) for one, depth in _descendants(traced, 0)]
    return before, after[:MOST_RELATED]


def _descendants(traced: Traced, depth: int) -> Iterator[tuple[Traced, int]]:
    for child in traced.children:
        yield child, depth
        yield from _descendants(child, depth + 1)


def untouched(
    triggers: Sequence[Obj], place: AcceptingTarget, attempts: Sequence[Attempt], event: CloudEvent
) -> list[Untouched]:
    """The Triggers of the event's Broker that have not tried it, with why: those that want it first."""
    tried = {attempt.route for attempt in attempts}
    found = [
        _judged(trigger, event)
        for trigger in triggers
        if trigger["metadata"]["uid"] not in tried and _listens_to(trigger, place)
    ]
    return sorted(found, key=lambda one: (not one.passes, one.name))[:MOST_ROUTES]


def _listens_to(trigger: Obj, place: AcceptingTarget) -> bool:
    spec, namespace = trigger.get("spec") or {}, trigger["metadata"]["namespace"]
    ref = spec.get("brokerRef") or {}
    named = (ref.get("namespace") or namespace, ref.get("name") or spec.get("broker"))
    return place.kind == "Broker" and named == (place.namespace, place.name)


def _judged(trigger: Obj, event: CloudEvent) -> Untouched:
    spec, metadata = trigger.get("spec") or {}, trigger["metadata"]
    try:
        predicate = parse((spec.get("filter") or {}).get("attributes"), spec.get("filters"))
    except InvalidFilter as invalid:
        return Untouched(metadata["name"], metadata["namespace"], False, f"its filter is not valid: {invalid}", [])
    steps = steps_of(predicate, event)
    if not steps[0].passes:
        why = next((step.text for step in reversed(steps) if not step.passes), "")
        return Untouched(metadata["name"], metadata["namespace"], False, why, steps)
    why = "it is paused: the event waits" if is_paused(trigger) else "it has not begun, or was made after the event"
    return Untouched(metadata["name"], metadata["namespace"], True, why, steps)


def number_in(request: Request, name: str) -> int:
    """A number of the path."""
    return int(request.path_params[name])


async def page(request: Request) -> Response:
    """The page."""
    state, api = events_state(request), console_of(request).api(request)
    partition, offset = number_in(request, "partition"), number_in(request, "offset")
    story = await state.archive.ask(lambda history: story_of(history, state, partition, offset))
    if story is None:
        raise NotThere(
            f"Nothing is known of an event at offset {offset} of partition {partition}.",
            "It may be older than what is kept, or only just accepted: reload the page.",
        )
    event, attempts = story.traced.event, story.traced.attempts
    sent = cloud_event(event)
    places, others = await run_in_threadpool(_surroundings, api, event, attempts, sent)
    place = places.get(event.target)
    account = _account(request, place) if place is not None and place.address.audience else ""
    curl = as_curl(sent, place, account)
    before, after = relatives(story.parents, story.traced)
    return render(
        request,
        "events/event.html",
        title=f"Event {event.id}",
        event=event,
        arrived=clock(event.arrival),
        attributes=sent.attributes,
        place=place,
        account=account,
        data=view_of(event.data, event.datacontenttype),
        size=size,
        curl=curl if len(curl) <= CURL_LIMIT else "",
        json=as_json(sent) if len(event.data or b"") <= CURL_LIMIT else "",
        timeline=timeline_of(event, attempts, datetime.now(UTC)) if attempts else None,
        rows=rows_of(event, attempts),
        results=RESULTS,
        attempts=len(attempts),
        untouched=others,
        before=before,
        after=after,
        notes=story.notes,
        resent=request.query_params.get("resent", ""),
    )


def _surroundings(
    api: ClusterApi, event: Event, attempts: Sequence[Attempt], sent: CloudEvent
) -> tuple[dict[str, AcceptingTarget], list[Untouched]]:
    places = places_of(api)
    place = places.get(event.target)
    triggers = api.all(TRIGGERS) if place is not None and place.kind == "Broker" else []
    return places, untouched(triggers, place, attempts, sent) if place is not None else []


async def _event(request: Request) -> Event:
    state, partition, offset = events_state(request), number_in(request, "partition"), number_in(request, "offset")
    event = await state.archive.ask(lambda history: history.event_at(partition, offset))
    if event is None:
        raise NotThere(f"Nothing is known of an event at offset {offset} of partition {partition}.")
    return event


async def download(request: Request) -> Response:
    """The unchanged data as a download, never rendered by the browser."""
    event = await _event(request)
    headers = {"Content-Disposition": disposition(file_name(cloud_event(event)))}
    return Response(event.data or b"", media_type="application/octet-stream", headers=headers)


async def resend(request: Request) -> Response:
    """Sends the event to its Broker or channel once more, as its sender did."""
    event, api, given = await _event(request), console_of(request).api(request), await form(request)
    places = await run_in_threadpool(places_of, api)
    place = places.get(event.target)
    if place is None:
        raise UserError("The Broker or channel that accepted this event no longer exists.")
    await send_again(cloud_event(event), place, api, given.get("account", "").strip() or _account(request, place))
    query = urlencode({"resent": place.label})
    return back(f"/events/{event.partition}/{event.offset}?{query}")


def _account(request: Request, place: AcceptingTarget) -> str:
    session = console_of(request).session(request)
    return account_of(session.owner.user if session is not None else "", place)


ROUTES = [
    Route("/events/{partition:int}/{offset:int}", page),
    Route("/events/{partition:int}/{offset:int}/data", download),
    Route("/events/{partition:int}/{offset:int}/resend", resend, methods=["POST"]),
]
