"""Which attributes decide about a predicate: what has to be known of an event, and what need not be read."""

from __future__ import annotations

from penstock.filters.cesql import syntax
from penstock.filters.data.names import is_fact
from penstock.filters.predicate import Compared, Exact, Predicate, Prefix, Present, Suffix
from penstock.filters.walk import parts


def attributes_asked(predicate: Predicate) -> frozenset[str]:
    """The attributes that the predicate looks at; what it asks of data is not among them."""
    asked: set[str] = set()
    for part in parts(predicate):
        match part:
            case Exact(name) | Present(name) | Prefix(name) | Suffix(name) | Compared(name) if not is_fact(name):
                asked.add(name)
            case syntax.Attribute(name) | syntax.Exists(name):
                asked.add(name)
    return frozenset(asked)
