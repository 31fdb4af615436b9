"""Which attributes decide about a predicate: what has to be known of an event, and what need not be read."""

from __future__ import annotations

from penstock.filters.cesql import syntax
from penstock.filters.data.names import is_fact
from penstock.filters.predicate import All, AnyOf, Cesql, Compared, Exact, Not, Predicate, Prefix, Present, Suffix


def attributes_asked(predicate: Predicate) -> frozenset[str]:
    """The attributes that the predicate looks at; what it asks of data is not among them."""
    asked: set[str] = set()
    predicates, expressions = [predicate], list[syntax.Expression]()
    while predicates:
        match predicates.pop():
            case All(children) | AnyOf(children):
                predicates += children
            case Not(child):
                predicates.append(child)
            case Cesql(_, expression):
                expressions.append(expression)
            case Exact(name) | Present(name) | Prefix(name) | Suffix(name) | Compared(name) if not is_fact(name):
                asked.add(name)
    while expressions:
        expression = expressions.pop()
        if isinstance(expression, syntax.Attribute | syntax.Exists):
            asked.add(expression.name)
        expressions += syntax.children(expression)
    return frozenset(asked)
