"""From a route's raw filters to a predicate, and the checks of admission.

`parse` is total, because a route that was stored once must be routed whatever rules come later. It follows Knative:
an element without a dialect, or with a map that holds an empty name or value, does not count (`NoFilter`), and what
is made only of such elements passes everything, negated or not. An expression that cannot be parsed matches nothing,
as an expression that cannot be evaluated does; so does what is nested too deep. `validate` refuses all of these before
they are stored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.filters import cesql
from penstock.filters.predicate import (
    NOTHING,
    All,
    AnyOf,
    Cesql,
    Everything,
    Exact,
    Not,
    Predicate,
    Prefix,
    Present,
    Suffix,
)

DIALECTS = ("exact", "prefix", "suffix", "all", "any", "not", "cesql")
"""In the order in which they count when an element that was never validated has several."""

MAX_NESTING = 20
"""Levels of filters in filters: far above what people write, far below what ends a stack."""

_ATOMS: dict[str, Callable[[str, str], Predicate]] = {"exact": Exact, "prefix": Prefix, "suffix": Suffix}
_SCHEMA_NAMES = ("dataschema", "schemaurl")
_ATTRIBUTE_NAME = re.compile(r"[a-z][a-z0-9]*")


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a filter cannot be accepted, in the three parts of a Knative field error."""

    path: str
    message: str
    details: str = ""

    def __str__(self) -> str:
        return f"{self.message}: {self.path}" + (f"\n{self.details}" if self.details else "")


def parse(attributes: Mapping[str, str], filters: Sequence[Mapping[str, Any]]) -> Predicate:
    """The predicate of a route with these `filter.attributes` and `filters`; the latter replace the former."""
    if filters:
        return _join(All, _elements(filters, 1)) or Everything()
    return _join(All, [_legacy(name, value) for name, value in attributes.items()]) or Everything()


def _legacy(name: str, value: str) -> Predicate:
    if name in _SCHEMA_NAMES:
        # One attribute under the names that CloudEvents 0.3 and 1.0 give it.
        return AnyOf(tuple(Exact(each, value) if value else Present(each) for each in _SCHEMA_NAMES))
    return Exact(name, value) if value else Present(name)


def _element(element: Any, level: int) -> Predicate | None:
    """The predicate of one element of a list of filters; None where it does not count."""
    if not isinstance(element, Mapping):
        return None
    for dialect in DIALECTS:
        if value := element.get(dialect):
            return _dialect(dialect, value, level)
    return None


def _dialect(dialect: str, value: Any, level: int) -> Predicate | None:
    if level > MAX_NESTING:
        return NOTHING
    match dialect:
        case "all":
            return _join(All, _elements(value, level + 1))
        case "any":
            return _join(AnyOf, _elements(value, level + 1))
        case "not":
            child = _element(value, level + 1)
            return None if child is None else Not(child)
        case "cesql":
            return _cesql(value)
        case _:
            return _map(_ATOMS[dialect], value)


def _map(atom: Callable[[str, str], Predicate], value: Any) -> Predicate | None:
    if not isinstance(value, Mapping):
        return None
    if not all(isinstance(part, str) and part for item in value.items() for part in item):
        return None
    if not all(_is_text(part) for item in value.items() for part in item):
        return NOTHING
    return _join(All, [atom(name, text) for name, text in value.items()])


def _is_text(text: str) -> bool:
    """Whether it can be written down; half of a surrogate pair cannot, so no event holds it."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def _cesql(value: Any) -> Predicate | None:
    if not isinstance(value, str):
        return None
    try:
        return Cesql(value, cesql.parse(value))
    except cesql.ParseError:
        return NOTHING


def _elements(value: Any, level: int) -> list[Predicate]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        return []
    return [found for element in value if (found := _element(element, level)) is not None]


def _join(kind: type[All] | type[AnyOf], children: list[Predicate]) -> Predicate | None:
    match children:
        case []:
            return None
        case [only]:
            return only
        case _:
            return kind(tuple(children))


def validate(filters: Sequence[Any], path: str = "spec.filters") -> list[Problem]:
    """What is wrong with these `filters`, in Knative's words; empty when they can be stored."""
    return _list_problems(filters, path, 1)


def validate_attributes(attributes: Mapping[Any, Any], path: str = "spec.filter.attributes") -> list[Problem]:
    """What is wrong with the names in `filter.attributes` or in the map of a dialect."""
    return [
        Problem(
            f"{path}[{name}]",
            f'invalid key name "{name}"',
            "Attribute name must start with a letter and can only contain lowercase alphanumeric",
        )
        for name in attributes
        if not isinstance(name, str) or not _ATTRIBUTE_NAME.fullmatch(name)
    ]


def _list_problems(filters: Sequence[Any], path: str, level: int) -> list[Problem]:
    return [problem for i, element in enumerate(filters) for problem in _problems(element, f"{path}[{i}]", level)]


def _problems(element: Any, path: str, level: int) -> list[Problem]:
    if level > MAX_NESTING:
        return [Problem(path, "invalid value", f"filters can be nested {MAX_NESTING} levels deep")]
    if not isinstance(element, Mapping):
        return [Problem(path, f"invalid value: {element}", "a filter is an object with one dialect")]
    set_dialects = [dialect for dialect in DIALECTS if element.get(dialect)]
    problems = []
    if len(set_dialects) > 1:
        problems.append(Problem(path, "multiple dialects found, filters can have only one dialect set"))
    for dialect in set_dialects:
        problems += _dialect_problems(dialect, element[dialect], f"{path}.{dialect}", level)
    return problems


def _dialect_problems(dialect: str, value: Any, path: str, level: int) -> list[Problem]:
    match dialect:
        case "all" | "any":
            if not isinstance(value, Sequence) or isinstance(value, str):
                return [Problem(path, f"invalid value: {value}", "expected a list of filters")]
            return _list_problems(value, path, level + 1)
        case "not":
            return _problems(value, path, level + 1)
        case "cesql":
            return _cesql_problems(value, path)
        case _:
            return _map_problems(value, path)


def _map_problems(value: Any, path: str) -> list[Problem]:
    if not isinstance(value, Mapping):
        return [Problem(path, f"invalid value: {value}", "expected a map of attribute names to values")]
    return validate_attributes(value, path) + [
        Problem(f"{path}[{name}]", f"invalid value: {text}", "the value to compare with must be a non-empty string")
        for name, text in value.items()
        if not isinstance(text, str) or not text or not _is_text(text)
    ]


def _cesql_problems(value: Any, path: str) -> list[Problem]:
    try:
        if not isinstance(value, str):
            raise cesql.ParseError("expected a string")
        cesql.parse(value)
    except cesql.ParseError as error:
        return [Problem(path, f"invalid value: {value}", str(error))]
    return []
