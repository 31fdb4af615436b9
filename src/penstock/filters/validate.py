"""What is wrong with a route's filters, in Knative's words: the one judgement for admission and for the router.

As in Knative, an element without a dialect, or with a map that holds an empty value, is valid and ignored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.filters import cesql
from penstock.filters.data.conditions import data_problems
from penstock.filters.predicate import FilterProblem, is_text

DIALECTS = ("exact", "prefix", "suffix", "all", "any", "not", "cesql", "data")

MAX_NESTING = 32
"""Levels of filters in filters: far above what people write, far below what ends a stack."""

_ATTRIBUTE_NAME = re.compile(r"[a-z][a-z0-9]*")


def attribute_problems(attributes: Mapping[str, Any] | None, path: str) -> list[FilterProblem]:
    """What is wrong with a map of attribute names to the values they are compared with."""
    if not isinstance(attributes, Mapping):
        return [] if attributes is None else [FilterProblem(path, f"invalid value: {attributes}", "expected a map")]
    return [problem for name, value in attributes.items() for problem in _entry_problems(name, value, path)]


def filter_problems(filters: Sequence[Any] | None, path: str, level: int = 1) -> list[FilterProblem]:
    """What is wrong with a list of filters."""
    if not isinstance(filters, Sequence) or isinstance(filters, str):
        return (
            [] if filters is None else [FilterProblem(path, f"invalid value: {filters}", "expected a list of filters")]
        )
    return [
        problem for n, element in enumerate(filters) for problem in _element_problems(element, f"{path}[{n}]", level)
    ]


def filters_on_data(filters: Any, path: str) -> list[str]:
    """Where filters without problems ask for data."""
    if not filters:
        return []
    if isinstance(filters, Sequence):
        return [found for n, element in enumerate(filters) for found in filters_on_data(element, f"{path}[{n}]")]
    places = [f"{path}.data"] if filters.get("data") else []
    for dialect in ("all", "any", "not"):
        places += filters_on_data(filters.get(dialect), f"{path}.{dialect}")
    return places


def _element_problems(element: Any, path: str, level: int) -> list[FilterProblem]:
    if level > MAX_NESTING:
        return [FilterProblem(path, f"filters are nested deeper than {MAX_NESTING} levels")]
    if not isinstance(element, Mapping):
        expected = "expected an object with one dialect"
        return [] if element is None else [FilterProblem(path, f"invalid value: {element}", expected)]
    problems = [
        FilterProblem(f"{path}.{name}", "must not set the field(s)") for name in element if name not in DIALECTS
    ]
    if sum(1 for dialect in DIALECTS if element.get(dialect)) > 1:
        problems.append(FilterProblem(path, "multiple dialects found, filters can have only one dialect set"))
    for dialect in DIALECTS:
        if value := element.get(dialect):
            problems += _dialect_problems(dialect, value, f"{path}.{dialect}", level)
    return problems


def _dialect_problems(dialect: str, value: Any, path: str, level: int) -> list[FilterProblem]:
    match dialect:
        case "all" | "any":
            return filter_problems(value, path, level + 1)
        case "not":
            return _element_problems(value, path, level + 1)
        case "cesql":
            return _cesql_problems(value, path)
        case "data":
            return data_problems(value, path)
        case _:
            return attribute_problems(value, path)


def _entry_problems(name: Any, value: Any, path: str) -> list[FilterProblem]:
    problems = []
    if not isinstance(name, str) or not _ATTRIBUTE_NAME.fullmatch(name):
        rule = "Attribute name must start with a letter and can only contain lowercase alphanumeric"
        problems.append(FilterProblem(f"{path}[{name}]", f'invalid key name "{name}"', rule))
    if not isinstance(value, str) or not is_text(value):
        problems.append(
            FilterProblem(f"{path}[{name}]", f"invalid value: {value}", "expected a text that an event can hold")
        )
    return problems


def _cesql_problems(value: Any, path: str) -> list[FilterProblem]:
    try:
        if not isinstance(value, str):
            raise cesql.ParseError("expected a string")
        cesql.parse(value)
    except cesql.ParseError as error:
        return [FilterProblem(path, f"invalid value: {value}", str(error))]
    return []
