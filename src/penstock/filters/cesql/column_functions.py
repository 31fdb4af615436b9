"""The built-in functions of CESQL as Spark columns, with arguments that are already cast to their types.

Each gives null where the reference gives an error, and where an argument is null.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F

from penstock.filters.cesql.terms import Term, bind, cast
from penstock.filters.cesql.values import WHITESPACE, Type


def _concat(*texts: Term) -> Column:
    return F.concat(*(text.column for text in texts)) if texts else F.lit("")


def _concat_ws(delimiter: Term, *texts: Term) -> Column:
    def joined(between: Column) -> Column:
        # The empty start keeps the error of a delimiter that is not needed.
        parts = [F.substring(between, 1, 0)]
        for n, text in enumerate(texts):
            parts += [between, text.column] if n else [text.column]
        return F.concat(*parts)

    return bind(delimiter, joined)


def _left(text: Term, count: Term) -> Column:
    return bind(count, lambda n: F.when(n >= 0, F.substring(text.column, F.lit(1), n)))


def _right(text: Term, count: Term) -> Column:
    def last(x: Column, n: Column) -> Column:
        # `greatest` overlooks nulls, but the length does not.
        return F.when(n >= 0, F.substring(x, F.greatest(F.length(x) - n, F.lit(0)) + 1, n))

    return bind(text, lambda x: bind(count, lambda n: last(x, n)))


def _substring(text: Term, position: Term, count: Term | None = None) -> Column:
    def part(x: Column, at: Column, n: Column) -> Column:
        within = (n >= 0) & (at <= F.length(x)) & (at >= -F.length(x))
        return F.when(within & (at == 0), F.lit("")).when(within, F.substring(x, at, n))

    def counted(x: Column, at: Column) -> Column:
        if count is None:
            return part(x, at, F.length(x))
        return bind(count, lambda n: part(x, at, n))

    return bind(text, lambda x: bind(position, lambda at: counted(x, at)))


def _abs(number: Term) -> Column:
    # The one value that has no positive counterpart fits a wider type and fails to come back from it.
    return F.abs(number.column.cast("bigint")).try_cast("int")


def _is(target: Type) -> Callable[[Term], Column]:
    def castable(value: Term) -> Column:
        if value.type is not Type.STRING:
            return F.when(value.column.isNotNull(), F.lit(True))
        return bind(
            value,
            lambda text: F.when(text.isNotNull(), cast(Term(Type.STRING, text, small=True), target).column.isNotNull()),
        )

    return castable


FUNCTIONS: dict[str, Callable[..., Column]] = {
    "LENGTH": lambda text: F.length(text.column),
    "CONCAT": _concat,
    "CONCAT_WS": _concat_ws,
    "LOWER": lambda text: F.lower(text.column),
    "UPPER": lambda text: F.upper(text.column),
    "TRIM": lambda text: F.btrim(text.column, F.lit(WHITESPACE)),
    "LEFT": _left,
    "RIGHT": _right,
    "SUBSTRING": _substring,
    "ABS": _abs,
    "INT": lambda value: cast(value, Type.INTEGER).column,
    "BOOL": lambda value: cast(value, Type.BOOLEAN).column,
    "STRING": lambda value: cast(value, Type.STRING).column,
    "IS_INT": _is(Type.INTEGER),
    "IS_BOOL": _is(Type.BOOLEAN),
}
