"""The building block of compiled CESQL: a Spark column with a CESQL type, which is null where there was an error.

Casts give null where CESQL's give an error. A column that is used more than once is bound to a name first, unless it
is small, so that a compiled expression is not larger than its source by more than a constant factor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from penstock.filters.cesql import values
from penstock.filters.cesql.values import INTEGER_TEXT, Type, Value, type_of

_SPARK_TYPES = {Type.STRING: "string", Type.INTEGER: "int", Type.BOOLEAN: "boolean"}


@dataclass(frozen=True, slots=True)
class Term:
    """A compiled expression."""

    type: Type
    column: Column
    small: bool = False
    """Whether it costs next to nothing to repeat it."""
    literal: Value | None = None
    """Its value, where that does not depend on the event."""


def literal(value: Value) -> Term:
    """A value that is the same for every event."""
    kind = type_of(value)
    return Term(kind, F.lit(value).cast(_SPARK_TYPES[kind]), small=True, literal=value)


def error(kind: Type) -> Term:
    """An expression that cannot be evaluated, whatever the event."""
    return Term(kind, F.lit(None).cast(_SPARK_TYPES[kind]), small=True)


def balanced(join: Callable[[Column, Column], Column], columns: Sequence[Column]) -> Column:
    """One column of many by an associative operator, in halves: a long list does not become a deep expression."""
    if len(columns) == 1:
        return columns[0]
    half = len(columns) // 2
    return join(balanced(join, columns[:half]), balanced(join, columns[half:]))


def conjunction(conditions: Sequence[Column]) -> Column:
    """All of the conditions."""
    return balanced(Column.__and__, conditions) if conditions else F.lit(True)


def disjunction(conditions: Sequence[Column]) -> Column:
    """Any of the conditions."""
    return balanced(Column.__or__, conditions) if conditions else F.lit(False)


def bind(term: Term, body: Callable[[Column], Column]) -> Column:
    """The body over the term's column, which is evaluated once."""
    if term.small:
        return body(term.column)
    return F.get(F.transform(F.array(term.column), body), F.lit(0))


def cast(term: Term, target: Type) -> Term:
    """The term in another type; an error where its value does not fit."""
    if term.type is target:
        return term
    if term.literal is not None:
        value, possible = values.cast(term.literal, target)
        return literal(value) if possible else error(target)
    return Term(target, _cast(term, target), small=term.small)


def _cast(term: Term, target: Type) -> Column:
    match term.type, target:
        case Type.STRING, Type.INTEGER:
            # Spark also reads blanks and fractions; what CESQL refuses becomes "", which Spark refuses, too.
            digits = F.regexp_extract(term.column, rf"\A({INTEGER_TEXT})\z", 1)
            return digits.try_cast("int")
        case Type.STRING, Type.BOOLEAN:
            known = F.create_map(F.lit("true"), F.lit(True), F.lit("false"), F.lit(False))
            return known[F.lower(term.column)]
        case Type.INTEGER, Type.BOOLEAN:
            return term.column != 0
        case _:
            return term.column.cast(_SPARK_TYPES[target])
