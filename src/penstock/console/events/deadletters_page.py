"""`/deadletters`: dead letters, by route and reason and one by one, and redrives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.console.console import console_of
from penstock.console.events.data_view import clock
from penstock.console.events.search_page import blind_spots
from penstock.console.events.state import events_state
from penstock.console.pages import back, form_fields, fragment, render
from penstock.history.reader.answers import DeadLetter, DeadLetterCount
from penstock.history.reader.history import History
from penstock.history.reader.questions import DeadLetterFilter, NamedRoute
from penstock.kube.kinds import Obj
from penstock.operations.cluster_api import ClusterApi, Resource
from penstock.operations.replays import ReplayOptions, ReplaySubject, is_over, line_of, replay_of, succeeded, warning_of
from penstock.operations.times import window
from penstock.runtime.errors import UserError
from penstock.settings import Settings

MOST = 200
SINCE = "24h"
MOST_REPLAYS = 8
REPLAYS = Resource("penstock.dev/v1alpha1", "Replay", "replays", True)
KINDS = ("Trigger", "Subscription")


@dataclass(frozen=True)
class DeadLettersForm:
    """What the form asks for, as it was typed."""

    since: str = SINCE
    route: str = ""
    """`trigger/NAMESPACE/NAME`; empty: of any."""
    reason: str = ""

    @classmethod
    def read(cls, query: Mapping[str, str]) -> DeadLettersForm:
        """Of a request."""
        return cls(query.get("since", SINCE).strip(), query.get("route", "").strip(), query.get("reason", "").strip())

    def filter(self) -> DeadLetterFilter:
        """The question. Raises UserError."""
        begin, _ = window(self.since or None, None, names=("since", "until"))
        route = route_named(self.route) if self.route else NamedRoute()
        return DeadLetterFilter(begin, None, route, self.reason or None, limit=MOST)

    def query(self, **more: str) -> str:
        """As a part of an address."""
        return urlencode({"since": self.since, "route": self.route, "reason": self.reason, **more})


@dataclass(frozen=True)
class FoundDeadLetters:
    """The answer."""

    counts: list[DeadLetterCount]
    each: list[DeadLetter]
    notes: list[str]


@dataclass(frozen=True)
class ReplayLine:
    """A Replay, and how it goes."""

    namespace: str
    name: str
    target: str
    line: str
    percent: float
    state: str
    """`waiting`, `running`, `done` or `failed`."""
    warning: str


def route_named(text: str) -> NamedRoute:
    """The route of `trigger/NAMESPACE/NAME`. Raises UserError."""
    parts = text.split("/")
    kinds = {kind.lower(): kind for kind in KINDS}
    if len(parts) != 3 or parts[0].lower() not in kinds:
        raise UserError(f"Invalid route {text}.", "Write trigger/NAMESPACE/NAME.")
    return NamedRoute(kinds[parts[0].lower()], parts[1], parts[2])


def route_text(one: DeadLetter | DeadLetterCount) -> str:
    """The route as `route_named` reads it; empty for old records that have no name."""
    return f"{(one.kind or '').lower()}/{one.namespace}/{one.name}" if one.name else ""


def dead_letters(history: History, wanted: DeadLetterFilter, settings: Settings) -> FoundDeadLetters:
    """The answer."""
    counts, each = history.deadletter_counts(wanted), history.deadletters(wanted)
    return FoundDeadLetters(counts, each, blind_spots(history, settings))


def replay_line(replay: Obj) -> ReplayLine:
    """A Replay as the page shows it."""
    spec, status = replay.get("spec") or {}, replay.get("status") or {}
    target = spec.get("target") or spec.get("source") or {}
    state = "waiting" if not status.get("startTime") else "running"
    percent = float(str(status.get("progress") or "0").rstrip("%") or 0)
    if is_over(replay):
        state, percent = ("done" if succeeded(replay)[0] == "True" else "failed"), 100.0
    metadata = replay["metadata"]
    named = f"{str(target.get('kind')).lower()} {target.get('name')}"
    return ReplayLine(
        metadata["namespace"], metadata["name"], named, line_of(replay), percent, state, warning_of(replay) or ""
    )


def redrives(replays: Sequence[Obj]) -> list[ReplayLine]:
    """The newest redrives."""
    found = [replay for replay in replays if (replay.get("spec") or {}).get("deadLetters")]
    found.sort(key=lambda replay: str(replay["metadata"].get("creationTimestamp")), reverse=True)
    return [replay_line(replay) for replay in found[:MOST_REPLAYS]]


def requests_of(fields: Iterable[tuple[str, str]]) -> list[tuple[str, Obj]]:
    """The Replays that a form asks for, each with its namespace: one for each route. Raises UserError.

    `letter=trigger/NAMESPACE/NAME EVENT-ID` for every event that was chosen, or `group=trigger/NAMESPACE/NAME` with a
    `reason` for all of them.
    """
    values = list(fields)
    named = dict(values)
    since = named.get("since", "")
    if group := named.get("group"):
        wishes = ReplayOptions(since=since or None, dead_letters=True, reason=named.get("reason") or None)
        return [_request(group, wishes)]
    chosen: dict[str, list[str]] = {}
    for name, value in values:
        if name == "letter":
            route, _, ident = value.partition(" ")
            chosen.setdefault(route, []).append(ident)
    if not chosen:
        raise UserError("No event is selected.", "Select at least one event.")
    return [
        _request(route, ReplayOptions(since=since or None, ids=tuple(dict.fromkeys(ids)), dead_letters=True))
        for route, ids in chosen.items()
    ]


def _request(route: str, wishes: ReplayOptions) -> tuple[str, Obj]:
    named = route_named(route)
    return named.namespace or "", replay_of(ReplaySubject(named.kind or "", named.name or ""), wishes)


async def page(request: Request) -> Response:
    """The page."""
    state, wanted = events_state(request), DeadLettersForm.read(request.query_params)
    replays = await run_in_threadpool(_redrives, console_of(request).api(request))
    problem, answer = None, FoundDeadLetters([], [], [])
    try:
        asked = wanted.filter()
        answer = await state.archive.ask(lambda history: dead_letters(history, asked, state.settings))
    except UserError as found:
        problem = found
    return render(
        request,
        "events/deadletters.html",
        title="Dead letters",
        wanted=wanted,
        answer=answer,
        problem=problem,
        most=MOST,
        replays=replays,
        route_text=route_text,
        clock=clock,
    )


def _redrives(api: ClusterApi) -> list[ReplayLine]:
    return redrives(api.all(REPLAYS))


async def progress(request: Request) -> Response:
    """How the Replays go, for the script of the page."""
    events_state(request)
    replays = await run_in_threadpool(_redrives, console_of(request).api(request))
    return fragment("events/replays.html", replays=replays)


async def redrive(request: Request) -> Response:
    """Makes the Replays."""
    events_state(request)
    fields = await form_fields(request)
    wanted = requests_of(fields)
    api = console_of(request).api(request)
    for namespace, replay in wanted:
        await run_in_threadpool(api.create, REPLAYS, namespace, replay)
    kept = {name: value for name, value in fields if name in ("since", "route")}
    return back(f"/deadletters?{urlencode({'since': SINCE, **kept})}#replays")


ROUTES = [
    Route("/deadletters", page),
    Route("/deadletters/replays", progress),
    Route("/deadletters/redrive", redrive, methods=["POST"]),
]
