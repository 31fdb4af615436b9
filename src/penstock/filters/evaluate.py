"""The reference evaluator: whether a predicate holds for an event.

This is the definition that the Spark columns are tested against; it favours being obviously right over speed.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.events.event import CloudEvent
from penstock.filters.cesql.evaluate import passes
from penstock.filters.data.facts import facts, facts_asked
from penstock.filters.predicate import (
    COMPARE,
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


def matches_event(predicate: Predicate, event: CloudEvent) -> bool:
    """Whether the predicate holds for an event, its data included."""
    return matches(predicate, known(predicate, event))


def known(predicate: Predicate, event: CloudEvent) -> Mapping[str, str]:
    """What decides about the predicate: the event's attributes, and what it asks of data."""
    asked = facts_asked(predicate)
    return {**event.attributes, **facts(event, asked)} if asked else event.attributes


def matches(predicate: Predicate, attributes: Mapping[str, str]) -> bool:  # noqa: PLR0911  # one return per kind
    """Whether the predicate holds for an event with these attributes (in their canonical text) and facts."""
    match predicate:
        case Everything():
            return True
        case Exact(attribute, value):
            return attributes.get(attribute) == value
        case Present(attribute):
            return bool(attributes.get(attribute))
        case Prefix(attribute, value):
            return (text := attributes.get(attribute)) is not None and text.startswith(value)
        case Suffix(attribute, value):
            return (text := attributes.get(attribute)) is not None and text.endswith(value)
        case Compared(attribute, comparison, value):
            return (text := attributes.get(attribute)) is not None and COMPARE[comparison](float(text), value)
        case All(children):
            return all(matches(child, attributes) for child in children)
        case AnyOf(children):
            return any(matches(child, attributes) for child in children)
        case Not(child):
            return not matches(child, attributes)
        case Cesql(_, expression):
            return passes(expression, attributes)
