"""Why an event passes a Trigger's filters or does not, with the evaluator that the router is tested against. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.engine.problem import Problem
from penstock.events.event import CloudEvent
from penstock.filters.cesql.evaluate import evaluate
from penstock.filters.data.facts import facts
from penstock.filters.data.names import KIND, facts_asked, is_fact, parts_of
from penstock.filters.evaluate import matches
from penstock.filters.parse import InvalidFilter, parse
from penstock.filters.predicate import (
    All,
    AnyOf,
    Cesql,
    Compared,
    Everything,
    Exact,
    Not,
    Predicate,
    Prefix,
    Present,
    Suffix,
)
from penstock.resources.conditions import READY, find
from penstock.resources.delivering import DELIVERING
from penstock.resources.options import RouteOptions

COMPARED = {"gt": "is above", "gte": "is at least", "lt": "is below", "lte": "is at most"}


@dataclass(frozen=True)
class Step:
    """One filter, or a part of one."""

    depth: int
    passes: bool
    text: str


@dataclass(frozen=True)
class Verdict:
    """What came of it."""

    name: str
    matches: bool
    steps: list[Step]
    notes: list[str]
    """What else keeps events from arriving."""

    @property
    def sentence(self) -> str:
        """The end of the story."""
        return f"{self.name} {'gets' if self.matches else 'does not get'} this event"


def reasons(route: Mapping[str, Any], event: CloudEvent) -> Verdict:
    """Filter by filter, whether the event passes the route. Raises Problem where the filters are not valid."""
    spec = route.get("spec") or {}
    name = f"{str(route.get('kind')).lower()}/{(route.get('metadata') or {}).get('name', '')}"
    try:
        predicate = parse((spec.get("filter") or {}).get("attributes"), spec.get("filters"))
    except InvalidFilter as invalid:
        raise Problem(f"{name} has a filter that is not valid: {invalid}.") from None
    known = {**event.attributes, **facts(event, facts_asked(predicate))}
    return Verdict(name, matches(predicate, known), list(_steps(predicate, known, 0)), list(_notes(route)))


def _steps(predicate: Predicate, attributes: Mapping[str, str], depth: int) -> Iterator[Step]:
    holds = matches(predicate, attributes)
    yield Step(depth, holds, _text(predicate, attributes, holds))
    match predicate:
        case All(children) | AnyOf(children):
            for child in children:
                yield from _steps(child, attributes, depth + 1)
        case Not(child):
            yield from _steps(child, attributes, depth + 1)


def _text(predicate: Predicate, attributes: Mapping[str, str], holds: bool) -> str:
    match predicate:
        case Everything():
            text = "there is no filter: every event passes"
        case Exact(attribute, value):
            text = f"{_called(attribute)} is {value!r}" + _but(attribute, attributes, holds)
        case Present(attribute):
            text = f"{_called(attribute)} is there" + ("" if holds else ", but the event has none")
        case Prefix(attribute, value):
            text = f"{_called(attribute)} begins with {value!r}" + _but(attribute, attributes, holds)
        case Suffix(attribute, value):
            text = f"{_called(attribute)} ends with {value!r}" + _but(attribute, attributes, holds)
        case Compared(attribute, operator, value):
            text = f"{_called(attribute)} {COMPARED[operator]} {value:g}" + _but(attribute, attributes, holds)
        case All():
            text = "all of"
        case AnyOf(children):
            text = "any of" if children else "nothing passes"
        case Not():
            text = "not"
        case Cesql(source, expression):
            text = source + ("" if holds else f"   is {_outcome(expression, attributes)}")
    return text


def _called(name: str) -> str:
    """An attribute by its name; of data, where in it, and what kind of thing is looked at."""
    if not is_fact(name):
        return name
    kind, key = parts_of(name)
    place = f"data.{key}" if key else "data"
    return f"the type of {place}" if kind == KIND else place


def _but(attribute: str, attributes: Mapping[str, str], holds: bool) -> str:
    if holds:
        return ""
    value = attributes.get(attribute)
    return ", but the event has none" if value is None else f", but the event has {value!r}"


def _outcome(expression: Any, attributes: Mapping[str, str]) -> str:
    result = evaluate(expression, attributes)
    if result.errors:
        return "an error: " + ", ".join(sorted({str(error.value) for error in result.errors}))
    return str(result.value).lower() if isinstance(result.value, bool) else repr(result.value)


def _notes(route: Mapping[str, Any]) -> Iterator[str]:
    conditions = (route.get("status") or {}).get("conditions")
    ready = find(conditions, READY)
    if ready is not None and ready.get("status") != "True":
        yield f"it is not Ready: {ready.get('message') or ready.get('reason') or 'not yet'}"
    if RouteOptions.read(dict(route)).paused:
        yield "it is paused: events wait"
        return
    delivering = find(conditions, DELIVERING)
    if delivering is not None and delivering.get("status") == "False":
        yield f"deliveries fail: {delivering.get('message')}"
