"""The dialect `data`: from what a person writes to a predicate over facts, or to what is wrong with it.

`{"order.country": "DE", "order.total": {"gte": 100, "lt": 500}}`: every member must hold. A plain value asks for that
very value, of that very type; an object asks by operators, which must all hold.

Numbers are compared by value, as 64-bit floating-point numbers: 1, 1.0 and 1e0 are one number. A whole number that such
a number cannot tell from its neighbour is refused, so that an exact comparison is exact.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from penstock.filters.data.facts import KIND, NUMBER, READABLE, STRING, facts_asked, key_of, path_of, variant_path
from penstock.filters.predicate import (
    COMPARE,
    All,
    AnyOf,
    Compared,
    Comparison,
    Exact,
    FilterProblem,
    Not,
    Predicate,
    Prefix,
    Suffix,
    is_text,
)

OPERATORS = ("prefix", "suffix", *COMPARE, "in", "exists")

LARGEST_INTEGER = 2**53 - 1
"""Whole numbers up to this one are represented exactly."""

_JSON_DATA = Prefix(READABLE, "")
_EXPECTED = "expected a string, a number, true, false, or an object of " + ", ".join(OPERATORS)
_NULL = 'null is lost when the object is applied again; ask for it by {"in": [null]}'


def data_problems(data: Any, path: str) -> list[FilterProblem]:
    """What is wrong with a filter on data."""
    if not isinstance(data, Mapping):
        return [FilterProblem(path, f"invalid value: {_shown(data)}", "expected a map of paths into the data")]
    return [found for key, condition in data.items() for found in _entry_problems(key, condition, path)]


def predicate_of(data: Mapping[str, Any]) -> Predicate:
    """The predicate of a filter on data that has no problems."""
    return _all([_condition(key_of(path_of(key) or ()), condition) for key, condition in data.items()])


def settled(predicate: Predicate, negated: bool = False) -> Predicate:
    """The predicate with its negations moved to where they are asked of data, and there only of JSON data.

    What cannot be read holds neither for a condition nor for its opposite, as with a null in SQL. Elsewhere an event
    that lacks something holds for the opposite, as in Knative, and that stays so.
    """
    if not facts_asked(predicate):
        return Not(predicate) if negated else predicate
    match predicate:
        case Not(child):
            return settled(child, not negated)
        case All(children):
            return (AnyOf if negated else All)(tuple(settled(child, negated) for child in children))
        case AnyOf(children):
            return (All if negated else AnyOf)(tuple(settled(child, negated) for child in children))
        case _:
            return All((_JSON_DATA, Not(predicate))) if negated else predicate


def _condition(key: str, condition: Any) -> Predicate:
    if isinstance(condition, Mapping):
        return _all([_BY_OPERATOR[operator](key, value) for operator, value in condition.items()])
    return _equal(key, condition)


def _equal(key: str, value: Any) -> Predicate:
    match value:
        case None:
            return Exact(KIND + key, "null")
        case bool():
            return Exact(KIND + key, "true" if value else "false")
        case str():
            return Exact(STRING + key, value)
        case _:
            return _number(key, float(value))


def _number(key: str, value: float) -> Predicate:
    if value.is_integer() and abs(value) <= LARGEST_INTEGER:
        return Exact(NUMBER + key, str(int(value)))
    # Python and Java write other numbers in different ways, so these are found by comparing, not by their text.
    return All((Compared(NUMBER + key, "gte", value), Compared(NUMBER + key, "lte", value)))


def _compared(operator: Comparison) -> Callable[[str, Any], Predicate]:
    return lambda key, value: Compared(NUMBER + key, operator, float(value))


def _exists(key: str, value: bool) -> Predicate:
    there = Prefix(KIND + key, "")
    return there if value else Not(there)


_BY_OPERATOR: dict[str, Callable[[str, Any], Predicate]] = {
    "prefix": lambda key, value: Prefix(STRING + key, value),
    "suffix": lambda key, value: Suffix(STRING + key, value),
    **{operator: _compared(operator) for operator in COMPARE},
    "in": lambda key, values: AnyOf(tuple(_equal(key, value) for value in values)),
    "exists": _exists,
}


def _all(children: list[Predicate]) -> Predicate:
    return children[0] if len(children) == 1 else All(tuple(children))


def _entry_problems(key: Any, condition: Any, path: str) -> list[FilterProblem]:
    place = f"{path}[{key}]"
    way = path_of(key) if isinstance(key, str) else None
    if way is None or not is_text(key):
        rule = "expected names of members joined by dots; a dot or backslash in a name has a backslash before it"
        return [FilterProblem(place, f'invalid key name "{key}"', rule)]
    if variant_path(way) is None:
        rule = "a name that has a dot or a bracket cannot have both kinds of quotes too"
        return [FilterProblem(place, f'invalid key name "{key}"', rule)]
    if isinstance(condition, Mapping):
        return _operator_problems(condition, place)
    if condition is None:
        return [FilterProblem(place, "invalid value: null", _NULL)]
    return _value_problems(condition, place, _EXPECTED)


def _operator_problems(condition: Mapping[Any, Any], place: str) -> list[FilterProblem]:
    if not condition:
        return [FilterProblem(place, "invalid value: {}", _EXPECTED)]
    problems = []
    for operator, value in condition.items():
        at = f"{place}.{operator}"
        if operator not in OPERATORS:
            problems.append(FilterProblem(at, "must not set the field(s)", f"operators are {', '.join(OPERATORS)}"))
        else:
            problems += _operand_problems(operator, value, at)
    return problems


def _operand_problems(operator: str, value: Any, at: str) -> list[FilterProblem]:
    match operator:
        case "prefix" | "suffix":
            return [] if isinstance(value, str) and is_text(value) else [_invalid(value, at, "expected a string")]
        case "exists":
            return [] if isinstance(value, bool) else [_invalid(value, at, "expected true or false")]
        case "in":
            if not isinstance(value, list | tuple) or not value:
                return [_invalid(value, at, "expected a list of values, at least one")]
            expected = "expected strings, numbers, true, false or null"
            return [
                found
                for number, each in enumerate(value)
                if each is not None
                for found in _value_problems(each, f"{at}[{number}]", expected)
            ]
        case _:
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            return _value_problems(value, at, "") if is_number else [_invalid(value, at, "expected a number")]


def _value_problems(value: Any, at: str, expected: str) -> list[FilterProblem]:
    match value:
        case bool():
            return []
        case str():
            return [] if is_text(value) else [_invalid(value, at, "expected a text that an event can hold")]
        case int():
            rule = f"whole numbers beyond {LARGEST_INTEGER} cannot be distinguished from their neighbours"
            return [] if abs(value) <= LARGEST_INTEGER else [_invalid(value, at, rule)]
        case float():
            return [] if math.isfinite(value) else [_invalid(str(value), at, "expected a finite number")]
        case _:
            return [_invalid(value, at, expected)]


def _invalid(value: Any, at: str, details: str) -> FilterProblem:
    return FilterProblem(at, f"invalid value: {_shown(value)}", details)


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)
