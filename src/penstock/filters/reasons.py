"""Why an event passes a filter or does not, part by part, with the evaluator that the router is tested against."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.events.event import CloudEvent
from penstock.filters.cesql.evaluate import evaluate
from penstock.filters.data.facts import KIND, is_fact, parts_of
from penstock.filters.evaluate import known, matches
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

COMPARED = {"gt": "is above", "gte": "is at least", "lt": "is below", "lte": "is at most"}


@dataclass(frozen=True)
class Step:
    """One filter, or a part of one."""

    depth: int
    passes: bool
    text: str


def steps_of(predicate: Predicate, event: CloudEvent) -> list[Step]:
    """The predicate and its parts, from the outside in; the first step says whether the event passes."""
    return list(_steps(predicate, known(predicate, event), 0))


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
