"""How large a predicate is, and how large it may be."""

from __future__ import annotations

from penstock.filters.cesql import syntax
from penstock.filters.predicate import All, AnyOf, Cesql, Not, Predicate

MAX_TERMS = 10_000
"""Comparisons, operators and values that one expression of the router's query may have. Each costs a millisecond or two
when the query starts, and other changes of routes wait meanwhile; far more would take all of Spark's memory."""


def count_terms(predicate: Predicate) -> int:
    """Comparisons, operators and values of a predicate."""
    count, predicates = 0, [predicate]
    expressions: list[syntax.Expression] = []
    while predicates:
        count += 1
        match predicates.pop():
            case All(children) | AnyOf(children):
                predicates += children
            case Not(child):
                predicates.append(child)
            case Cesql(_, expression):
                expressions.append(expression)
    while expressions:
        count += 1
        expressions += syntax.children(expressions.pop())
    return count
