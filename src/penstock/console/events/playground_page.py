"""`/playground`: a filter that is typed, tried on recent events, part by part; and backtested over the history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.console.console import console_of
from penstock.console.events.copied import cloud_event
from penstock.console.events.places import AcceptingTarget, places_of
from penstock.console.events.search_page import blind_spots
from penstock.console.events.state import EventsState, events_state
from penstock.console.events.text import clock
from penstock.console.events.trial import Tried, admitted, filters_of, tried, trigger_of, yaml_of
from penstock.console.pages import back, form, fragment, render
from penstock.engine.problem import Problem
from penstock.history.reader.answers import Event
from penstock.history.reader.history import History
from penstock.history.reader.questions import EventFilter
from penstock.operations.cluster_api import NotThere
from penstock.operations.times import moment

RECENT = 50
LOOK_BACK = timedelta(hours=24)
SINCE = "24h"
EXAMPLE = "- exact:\n    type: dev.penstock.message\n"


@dataclass(frozen=True)
class Typed:
    """What was typed."""

    text: str
    broker: str
    """uid; empty: the first there is."""
    since: str = SINCE

    @classmethod
    def read(cls, fields: Mapping[str, str]) -> Typed:
        """Of a request."""
        return cls(fields.get("filter", ""), fields.get("broker", ""), fields.get("since") or SINCE)

    def query(self, **more: str) -> str:
        """As a part of an address."""
        return urlencode({"filter": self.text, "broker": self.broker, "since": self.since, **more})


@dataclass(frozen=True)
class TriedEvent:
    """An event that was tried."""

    event: Event
    tried: Tried
    at: str


@dataclass(frozen=True)
class FilterOutcome:
    """What came of a filter."""

    shown: list[TriedEvent]
    notes: list[str]
    yaml: str = ""
    problem: Problem | None = None

    @property
    def passed(self) -> int:
        """How many of them the Trigger would get."""
        return sum(one.tried.passes for one in self.shown)


def chosen(places: Mapping[str, AcceptingTarget], uid: str) -> AcceptingTarget | None:
    """The Broker that is meant: without a choice the first."""
    brokers = brokers_of(places)
    return next((place for place in brokers if place.uid == uid), brokers[0] if brokers else None)


def brokers_of(places: Mapping[str, AcceptingTarget]) -> list[AcceptingTarget]:
    """The Brokers among the places."""
    return [place for place in places.values() if place.kind == "Broker"]


def recent(
    history: History, state: EventsState, broker: AcceptingTarget | None, now: datetime
) -> tuple[list[Event], list[str]]:
    """The newest events of a Broker."""
    target = None if broker is None else broker.uid
    events = history.events(EventFilter(since=now - LOOK_BACK, target=target, limit=RECENT))
    return events, blind_spots(history, state.settings)


def outcome_of(
    typed: Typed, broker: AcceptingTarget | None, events: Sequence[Event], notes: list[str], state: EventsState
) -> FilterOutcome:
    """What comes of the filter; an invalid one is reported in the API's words."""
    namespace, name = (broker.namespace, broker.name) if broker is not None else ("default", "default")
    try:
        trigger = trigger_of(filters_of(typed.text), namespace, name)
        predicate = admitted(trigger, state.settings)
    except Problem as problem:
        return FilterOutcome([], notes, problem=problem)
    found = tried(predicate, map(cloud_event, events))
    shown = [TriedEvent(event, one, clock(event.arrival)[11:]) for event, one in zip(events, found, strict=True)]
    return FilterOutcome(shown, notes, yaml_of(trigger))


async def _outcome(
    request: Request, typed: Typed
) -> tuple[dict[str, AcceptingTarget], AcceptingTarget | None, FilterOutcome]:
    state = events_state(request)
    places = await run_in_threadpool(places_of, console_of(request).api(request))
    broker = chosen(places, typed.broker)
    now = datetime.now(UTC)
    events, notes = await state.archive.ask(lambda history: recent(history, state, broker, now))
    outcome = await run_in_threadpool(outcome_of, typed, broker, events, notes, state)
    return places, broker, outcome


async def page(request: Request) -> Response:
    """The page."""
    typed = Typed.read(request.query_params)
    places, broker, outcome = await _outcome(request, typed)
    return render(
        request,
        "events/playground.html",
        title="Playground",
        typed=typed,
        example=EXAMPLE,
        brokers=brokers_of(places),
        broker=broker,
        outcome=outcome,
        test=events_state(request).backtests.find(request.query_params.get("backtest", "")),
    )


async def tries(request: Request) -> Response:
    """What comes of the filter, for the script of the page."""
    _, _, outcome = await _outcome(request, Typed.read(request.query_params))
    return fragment("events/outcome.html", outcome=outcome)


async def backtest(request: Request) -> Response:
    """Begins a backtest."""
    state = events_state(request)
    typed = Typed.read(await form(request))
    moment(typed.since, datetime.now(UTC), "since")
    places = await run_in_threadpool(places_of, console_of(request).api(request))
    broker = chosen(places, typed.broker)
    if broker is None:
        raise Problem("There is no Broker whose events could be tried.", "Make one: penstock create broker")
    trigger = trigger_of(filters_of(typed.text), broker.namespace, broker.name)
    admitted(trigger, state.settings)
    test = state.backtests.start(yaml_of(trigger), typed.since, broker.namespace)
    return back(f"/playground?{typed.query(backtest=test.id)}#backtest")


async def backtest_state(request: Request) -> Response:
    """How a backtest goes, for the script of the page."""
    test = events_state(request).backtests.find(request.path_params["ident"])
    if test is None:
        raise NotThere("This backtest is not known any more.")
    return fragment("events/backtest.html", test=test)


ROUTES: list[Any] = [
    Route("/playground", page),
    Route("/playground/tries", tries),
    Route("/playground/backtests", backtest, methods=["POST"]),
    Route("/playground/backtests/{ident}", backtest_state),
]
