"""`/events`: accepted events by time, type, source, id, target and any condition, page by page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC
from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.console.console import console_of
from penstock.console.events.data_view import beginning, clock
from penstock.console.events.state import EventsState, events_state, places_of
from penstock.console.pages import render
from penstock.history.reader.answers import Event
from penstock.history.reader.history import History
from penstock.history.reader.questions import EventFilter, Position
from penstock.operations.times import window
from penstock.runtime.errors import UserError
from penstock.runtime.times import parse_rfc3339
from penstock.settings import Settings

PAGE = 50
SINCE = "1h"
FIELDS = ("since", "until", "type", "source", "id", "target", "where")


@dataclass(frozen=True)
class SearchForm:
    """What the form asks for, as it was typed."""

    since: str = SINCE
    until: str = ""
    type: str = ""
    source: str = ""
    id: str = ""
    target: str = ""
    where: str = ""

    @classmethod
    def read(cls, query: Mapping[str, str]) -> SearchForm:
        """From a request. A search for an id has no time limit by default."""
        given = {name: query[name].strip() for name in FIELDS if name in query}
        return cls(**({"since": ""} if given.get("id") and "since" not in given else {}) | given)

    def filter(self, after: str = "") -> EventFilter:
        """The question. Raises UserError."""
        begin, end = window(self.since or None, self.until or None, names=("since", "until"))
        return EventFilter(
            begin,
            end,
            self.type or None,
            self.source or None,
            self.id or None,
            self.target or None,
            self.where or None,
            limit=PAGE + 1,
            older_than=position(after) if after else None,
        )

    def query(self, **more: str) -> str:
        """As a part of an address."""
        named = {name: getattr(self, name) for name in FIELDS}
        return urlencode({name: value for name, value in {**named, **more}.items() if value or name == "since"})


@dataclass(frozen=True)
class EventLine:
    """An event in the table."""

    event: Event
    at: str
    data: str

    @classmethod
    def of(cls, event: Event) -> EventLine:
        """The line of an event."""
        return cls(event, clock(event.arrival), beginning(event.data, event.datacontenttype or ""))


@dataclass(frozen=True)
class FoundEvents:
    """A page of the answer."""

    lines: list[EventLine]
    after: str
    """Where the next page begins; empty: there is none."""
    notes: list[str]


def position(text: str) -> Position:
    """Where a page ended, as an address has it. Raises UserError."""
    try:
        arrival, partition, offset = text.split("_")
        return Position(parse_rfc3339(arrival), int(partition), int(offset))
    except ValueError:
        raise UserError("This page of the list does not exist.", "Search again.") from None


def position_text(event: Event) -> str:
    """Where a page ended, for an address."""
    return f"{event.arrival.astimezone(UTC).isoformat()}_{event.partition}_{event.offset}"


def blind_spots(history: History, settings: Settings) -> list[str]:
    """What the answer did not look at."""
    notes = []
    if history.without_kafka is not None:
        notes.append(
            f"Kafka is unreachable ({history.without_kafka}): the result contains only what is in the history."
        )
    elif not settings.history:
        notes.append(
            "The history is off: only what Kafka still holds can be seen. Start with history=true to keep more."
        )
    if history.unread:
        notes.append(f"{history.unread:,} older records were left unread, because there are so many.")
    return notes


def found(history: History, wanted: EventFilter, settings: Settings) -> FoundEvents:
    """A page of the answer."""
    events = history.events(wanted)
    shown = events[:PAGE]
    after = position_text(shown[-1]) if len(events) > PAGE else ""
    return FoundEvents([EventLine.of(event) for event in shown], after, blind_spots(history, settings))


async def search(request: Request) -> Response:
    """The page."""
    state = events_state(request)
    wanted, after = SearchForm.read(request.query_params), request.query_params.get("after", "")
    places = await run_in_threadpool(places_of, console_of(request).api(request))
    problem, answer = await _answer(state, wanted, after)
    return render(
        request,
        "events/search.html",
        title="Events",
        wanted=wanted,
        places=places,
        answer=answer,
        problem=problem,
        is_later=bool(after),
    )


async def _answer(state: EventsState, wanted: SearchForm, after: str) -> tuple[UserError | None, FoundEvents]:
    """An invalid condition is reported beside the form, where it can be corrected."""
    try:
        asked = wanted.filter(after)
        return None, await state.archive.ask(lambda history: found(history, asked, state.settings))
    except UserError as problem:
        return problem, FoundEvents([], "", [])


ROUTES = [Route("/events", search)]
