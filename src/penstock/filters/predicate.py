"""What a route asks of an event, as plain values.

A predicate is decided by an event's attributes alone, each of them in its canonical text. It is total: every event
either matches or does not, and an attribute that is missing never matches a condition on it. `Not` inverts the
outcome, so the negation of a condition on a missing attribute holds.
"""

from __future__ import annotations

from dataclasses import dataclass

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


Predicate = Everything | Exact | Present | Prefix | Suffix | All | AnyOf | Not | Cesql

NOTHING = AnyOf(())
"""Holds for no event: what the expression `false` becomes."""
