"""What a route asks of an event, as plain values.

A predicate is decided by an event's attributes, each of them in its canonical text, and by what its data says, which
counts as further attributes (see `data`). It is total: every event
either matches or does not, and an attribute that is missing never matches a condition on it. `Not` inverts the
outcome, so the negation of a condition on a missing attribute holds.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from penstock.filters.cesql.syntax import Expression


@dataclass(frozen=True, slots=True)
class Everything:
    """Holds for every event: a route without filters."""


@dataclass(frozen=True, slots=True)
class Exact:
    """The attribute is there and has this value."""

    attribute: str
    value: str


@dataclass(frozen=True, slots=True)
class Present:
    """The attribute is there and not empty: what an empty value means in `filter.attributes`."""

    attribute: str


@dataclass(frozen=True, slots=True)
class Prefix:
    """The attribute is there and starts with this text."""

    attribute: str
    value: str


@dataclass(frozen=True, slots=True)
class Suffix:
    """The attribute is there and ends with this text."""

    attribute: str
    value: str


Comparison = Literal["gt", "gte", "lt", "lte"]

COMPARE: dict[Comparison, Callable[[Any, Any], Any]] = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}
"""The comparisons, of numbers and of columns alike."""


@dataclass(frozen=True, slots=True)
class Compared:
    """The attribute is there, and is a number above or below this one. Only what data says is ever a number."""

    attribute: str
    operator: Comparison
    value: float


@dataclass(frozen=True, slots=True)
class All:
    """Every child holds; holds without children."""

    children: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one child holds; does not hold without children."""

    children: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The child does not hold."""

    child: Predicate


@dataclass(frozen=True, slots=True)
class Cesql:
    """The CloudEvents SQL expression evaluates to true without any error."""

    text: str
    expression: Expression


Predicate = Everything | Exact | Present | Prefix | Suffix | Compared | All | AnyOf | Not | Cesql

NOTHING = AnyOf(())
"""Holds for no event: what the expression `false` becomes."""


@dataclass(frozen=True, slots=True)
class FilterProblem:
    """Why a filter cannot be accepted, in the three parts of a Knative field error."""

    path: str
    message: str
    details: str = ""

    def __str__(self) -> str:
        return f"{self.message}: {self.path}" + (f"\n{self.details}" if self.details else "")


def is_text(text: str) -> bool:
    """Whether it can be written down; half of a surrogate pair cannot, so no event holds it."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)
