"""From a route's raw filters to a predicate, or to what is wrong with them.

Admission and the router both ask here, so what the one accepts the other routes. Filters that were stored without
admission, or under other rules, are refused where they are met, never taken to match nothing or everything.

It follows Knative: an element without a dialect, or with a map that holds an empty value, does not count (`NoFilter`),
and what is made only of such elements passes everything, negated or not. An expression that cannot be evaluated for an
event does not match it. `data` is penstock's own dialect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from penstock.filters import cesql
from penstock.filters.data import conditions
from penstock.filters.normal import conjunctive
from penstock.filters.predicate import (
    All,
    AnyOf,
    Cesql,
    Everything,
    Exact,
    FilterProblem,
    Not,
    Predicate,
    Prefix,
    Present,
    Suffix,
)
from penstock.filters.validate import DIALECTS, attribute_problems, filter_problems
from penstock.filters.walk import MAX_TERMS, count_terms

_ATOMS: dict[str, Callable[[str, str], Predicate]] = {"exact": Exact, "prefix": Prefix, "suffix": Suffix}
_SCHEMA_NAMES = ("dataschema", "schemaurl")


class InvalidFilter(ValueError):
    """The filters cannot be routed by; `problems` says why."""

    def __init__(self, problems: Sequence[FilterProblem]) -> None:
        super().__init__("; ".join(str(problem).replace("\n", ": ") for problem in problems))
        self.problems = tuple(problems)


def parse(attributes: Mapping[str, str] | None, filters: Sequence[Mapping[str, Any]] | None) -> Predicate:
    """The predicate of a route with these `filter.attributes` and `filters`; the latter replace the former."""
    problems = attribute_problems(attributes, "filter.attributes") + filter_problems(filters, "filters")
    if problems:
        raise InvalidFilter(problems)
    if filters:
        predicate = conditions.settled(_join(All, _elements(filters)) or Everything())
    else:
        predicate = _join(All, [_legacy(name, value) for name, value in (attributes or {}).items()]) or Everything()
    if (terms := count_terms(predicate)) > MAX_TERMS and conjunctive(predicate) is None:
        raise InvalidFilter([FilterProblem("filters", f"too large: {terms} terms, at most {MAX_TERMS} are possible")])
    return predicate


def problems_of(attributes: Any, filters: Any) -> tuple[FilterProblem, ...]:
    """What is wrong with `filter.attributes` and `filters`; nothing where `parse` has a predicate for them."""
    try:
        parse(attributes, filters)
    except InvalidFilter as invalid:
        return invalid.problems
    return ()


def _legacy(name: str, value: str) -> Predicate:
    if name in _SCHEMA_NAMES:
        # One attribute under the names that CloudEvents 0.3 and 1.0 give it.
        return AnyOf(tuple(Exact(each, value) if value else Present(each) for each in _SCHEMA_NAMES))
    return Exact(name, value) if value else Present(name)


def _element(element: Mapping[str, Any] | None) -> Predicate | None:
    """The predicate of one element of a list of filters; None where it does not count."""
    for dialect in DIALECTS if element else ():
        if value := (element or {}).get(dialect):
            return _dialect(dialect, value)
    return None


def _dialect(dialect: str, value: Any) -> Predicate | None:
    match dialect:
        case "all":
            return _join(All, _elements(value))
        case "any":
            return _join(AnyOf, _elements(value))
        case "not":
            child = _element(value)
            return None if child is None else Not(child)
        case "cesql":
            return Cesql(value, cesql.parse(value))
        case "data":
            return conditions.predicate_of(value)
        case _:
            return _map(_ATOMS[dialect], value)


def _map(atom: Callable[[str, str], Predicate], value: Mapping[str, str]) -> Predicate | None:
    return _join(All, [atom(name, text) for name, text in value.items()]) if all(value.values()) else None


def _elements(value: Iterable[Mapping[str, Any] | None]) -> list[Predicate]:
    return [found for element in value if (found := _element(element)) is not None]


def _join(kind: type[All] | type[AnyOf], children: list[Predicate]) -> Predicate | None:
    match children:
        case []:
            return None
        case [only]:
            return only
        case _:
            return kind(tuple(children))
