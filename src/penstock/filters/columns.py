"""Predicates as Spark columns: native expressions that are never null and never raise.

Spark's ANSI mode is on by default and one odd event must not end the query, so nothing is used here that can fail
on some input: look-ups and casts that give null instead, comparisons of strings, and regular expressions whose text is
made here.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from penstock.filters.cesql.columns import Attributes, conjunction, disjunction, passes
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


def column(predicate: Predicate, attributes: Attributes) -> Column:  # noqa: PLR0911  # one return per kind
    """Whether the predicate holds for an event's attributes."""
    match predicate:
        case Everything():
            return F.lit(True)
        case Exact(name, value):
            return _certain(attributes[name] == F.lit(value))
        case Present(name):
            return _certain(attributes[name] != F.lit(""))
        case Prefix(name, value):
            return _certain(F.startswith(attributes[name], F.lit(value)))
        case Suffix(name, value):
            return _certain(F.endswith(attributes[name], F.lit(value)))
        case Compared(name, comparison, value):
            return _certain(COMPARE[comparison](attributes[name].try_cast("double"), F.lit(value)))
        case All(children):
            return conjunction([column(each, attributes) for each in children])
        case AnyOf(children):
            return disjunction([column(each, attributes) for each in children])
        case Not(child):
            return ~column(child, attributes)
        case Cesql(_, expression):
            return passes(expression, attributes)


def _certain(condition: Column) -> Column:
    return F.coalesce(condition, F.lit(False))
