"""Everything that a predicate is made of, down to the expressions of CESQL in it."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.filters.cesql import syntax
from penstock.filters.predicate import All, AnyOf, Cesql, Not, Predicate


def parts(predicate: Predicate) -> Iterator[Predicate | syntax.Expression]:
    """The predicate, all below it, and then the expressions; without recursion, since some are deep."""
    predicates, expressions = [predicate], list[syntax.Expression]()
    while predicates:
        found = predicates.pop()
        yield found
        match found:
            case All(children) | AnyOf(children):
                predicates += children
            case Not(child):
                predicates.append(child)
            case Cesql(_, expression):
                expressions.append(expression)
    while expressions:
        expression = expressions.pop()
        yield expression
        expressions += syntax.children(expression)
