"""Walks over a predicate: which attributes it uses, and how large it is."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.filters.cesql import syntax
from penstock.filters.data.facts import is_fact
from penstock.filters.predicate import All, AnyOf, Cesql, Compared, Exact, Not, Predicate, Prefix, Present, Suffix


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


MAX_TERMS = 10_000
"""Comparisons, operators and values that one expression of the router's query may have. Each costs a millisecond or two
when the query starts, and other changes of routes wait meanwhile; far more would take all of Spark's memory."""


def count_terms(predicate: Predicate) -> int:
    """Comparisons, operators and values of a predicate."""
    return sum(1 for _ in parts(predicate))
