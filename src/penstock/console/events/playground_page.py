"""`/playground`: tries a filter on recent events, part by part, shows the Trigger for it, and backtests it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import yaml
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.console.console import console_of
from penstock.console.events.data_view import clock
from penstock.console.events.resending import cloud_event
from penstock.console.events.search_page import blind_spots
from penstock.console.events.state import AcceptingTarget, EventsState, events_state, places_of
from penstock.console.pages import back, form, fragment, render
from penstock.events.event import CloudEvent
from penstock.filters.parse import InvalidFilter, parse
from penstock.filters.predicate import Predicate
from penstock.filters.reasons import Step, steps_of
from penstock.history.reader.answers import Event
from penstock.history.reader.history import History
from penstock.history.reader.questions import EventFilter
from penstock.kube.kinds import Obj
from penstock.operations.cluster_api import NotThere
from penstock.operations.times import moment
from penstock.resources.registry import ADMISSION, AdmissionContext, AdmissionDenied
from penstock.resources.trigger import GROUP, KIND
from penstock.runtime.errors import UserError
from penstock.settings import Settings

NAME, SUBSCRIBER = "my-trigger", "http://127.0.0.1:9000/"
LONGEST = 16 * 1024

_ASSIGNED = re.compile(r"([a-z0-9]+)=([^=].*)")


@dataclass(frozen=True)
class Tried:
    """An event, and whether it passes."""

    event: CloudEvent
    steps: list[Step]

    @property
    def passes(self) -> bool:
        """Whether the Trigger would get it."""
        return self.steps[0].passes


def filters_of(text: str) -> Any:
    """The `filters` that a text means: YAML of them, of a Trigger that has them, or a CESQL expression.

    What is neither a list nor a map in YAML is an expression: `type = 'order'` is one, and is a string in YAML too.
    """
    if len(text) > LONGEST:
        raise UserError(f"The filter has {len(text):,} characters; the maximum is {LONGEST:,}.")
    stripped = text.strip()
    if not stripped:
        return []
    try:
        found = yaml.safe_load(stripped)
    except yaml.YAMLError as error:
        if _looks_like_yaml(stripped):
            raise UserError(f"Invalid YAML: {' '.join(str(error).split())}") from None
        found = None
    match found:
        case {"spec": {"filters": filters}} | {"filters": filters}:
            return filters
        case list():
            return found
        case dict():
            return [found]
        case _:
            return [{"cesql": stripped}]


def _looks_like_yaml(text: str) -> bool:
    return text.startswith(("-", "{", "[")) or text.partition(":")[0].strip() in ("filters", "spec", "apiVersion")


def trigger_of(filters: Any, namespace: str, broker: str, name: str = NAME, subscriber: str = SUBSCRIBER) -> Obj:
    """The Trigger with these filters."""
    spec = {"broker": broker, **({"filters": filters} if filters else {}), "subscriber": {"uri": subscriber}}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": f"{GROUP}/v1", "kind": KIND, "metadata": metadata, "spec": spec}


def admitted(trigger: Obj, settings: Settings) -> Predicate:
    """What the Trigger asks of events. Raises UserError, in the API's own words, where the API would refuse it."""
    admission = ADMISSION[GROUP, KIND]
    context = AdmissionContext("", trigger["metadata"]["namespace"], {}, settings, "CREATE")
    try:
        defaulted = admission.default(trigger, context)
        admission.validate(defaulted, None, context)
    except AdmissionDenied as denied:
        raise UserError(str(denied)) from None
    spec = defaulted["spec"]
    return parse((spec.get("filter") or {}).get("attributes"), spec.get("filters"))


def yaml_of(trigger: Obj) -> str:
    """The Trigger, to be applied."""
    text: str = yaml.safe_dump(trigger, sort_keys=False, allow_unicode=True, width=1000)
    return text


def tried(predicate: Predicate, events: Iterable[CloudEvent]) -> list[Tried]:
    """Every event with why it passes or does not."""
    return [Tried(event, steps_of(predicate, event)) for event in events]


def predicate_of(text: str) -> Predicate:
    """What a filter asks of events; `type=greeting` is understood too. Raises UserError for what is none."""
    if found := _ASSIGNED.fullmatch(text.strip()):
        filters: Any = [{"exact": {found[1]: found[2]}}]
    else:
        filters = filters_of(text)
    try:
        return parse(None, filters)
    except InvalidFilter as invalid:
        raise UserError(f"{invalid}.") from None


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
    """The result of trying a filter."""

    shown: list[TriedEvent]
    notes: list[str]
    yaml: str = ""
    problem: UserError | None = None

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
    """The result of the filter; an invalid one is reported like the API does."""
    namespace, name = (broker.namespace, broker.name) if broker is not None else ("default", "default")
    try:
        trigger = trigger_of(filters_of(typed.text), namespace, name)
        predicate = admitted(trigger, state.settings)
    except UserError as problem:
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
    """The result of the filter, for the script of the page."""
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
        raise UserError("There is no Broker with events to try.", "Create one: penstock create broker")
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
