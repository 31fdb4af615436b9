"""CESQL as Spark columns.

An error is null, and only an error is: as any error means that the event does not pass, neither its kind nor the value
beside it matters, and nulls spread through Spark's operators as errors do through CESQL's. Where Spark would overlook
a null (AND, OR, IN) or raise (overflow, division, casts) another form is used. Types are known beforehand: attributes
are strings, and every operator and function has one type of result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import Column
from pyspark.sql import functions as F

from penstock.filters.cesql import functions, values
from penstock.filters.cesql import functions as like
from penstock.filters.cesql.evaluate import REQUIRED
from penstock.filters.cesql.syntax import (
    Attribute,
    Calculate,
    Call,
    Combine,
    Compare,
    Exists,
    Expression,
    In,
    Like,
    Literal,
    Minus,
    Negation,
)
from penstock.filters.cesql.values import INTEGER_TEXT, WHITESPACE, Type, Value, type_of

# The building block of compiled CESQL: a Spark column with a CESQL type, which is null where there was an error.
# Casts give null where CESQL's give an error. A column that is used more than once is bound to a name first, unless
# it is small, so that a compiled expression is not larger than its source by more than a constant factor.

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


# The built-in functions of CESQL as Spark columns, with arguments that are already cast to their types. Each gives
# null where the reference gives an error, and where an argument is null.


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


class Attributes(Protocol):
    """An event's attributes by name, as text, null where missing: a `map<string,string>`, or what looks them up."""

    def __getitem__(self, name: str) -> Column: ...


def passes(expression: Expression, attributes: Attributes) -> Column:
    """Whether the expression, used as a filter, lets the event pass; never null."""
    match expression:
        case Attribute(name):
            return F.coalesce(attributes[name] == F.lit("true"), F.lit(False))
        case Combine("AND", operands):
            # Where an error is as good as false, Spark's own AND will do, and it stops at the first that fails.
            return conjunction([_true(each, attributes) for each in operands])
        case _:
            term = compile_expression(expression, attributes)
            return F.coalesce(term.column, F.lit(False)) if term.type is Type.BOOLEAN else F.lit(False)


def _true(operand: Expression, attributes: Attributes) -> Column:
    return F.coalesce(cast(compile_expression(operand, attributes), Type.BOOLEAN).column, F.lit(False))


def compile_expression(expression: Expression, attributes: Attributes) -> Term:
    """The expression over an event's attributes."""
    match expression:
        case Literal(value):
            return literal(value)
        case Attribute(name):
            return Term(Type.STRING, attributes[name], small=True)
        case Exists(name):
            return literal(True) if name in REQUIRED else Term(Type.BOOLEAN, attributes[name].isNotNull())
        case _:
            return _operation(expression, lambda operand: compile_expression(operand, attributes))


def _operation(expression: Expression, term: Callable[[Expression], Term]) -> Term:  # noqa: PLR0911  # one per kind
    match expression:
        case Negation(operand):
            return _negation(term(operand))
        case Minus(operand):
            return _calculate("-", literal(0), term(operand))
        case Compare(operator, left, right):
            return _compare(operator, term(left), term(right))
        case Calculate(operator, left, right):
            return _calculate(operator, term(left), term(right))
        case Combine(operator, operands):
            return _combine(operator, [cast(term(each), Type.BOOLEAN).column for each in operands])
        case Like(operand, pattern, negated):
            return _negated_if(negated, _like(cast(term(operand), Type.STRING).column, pattern))
        case In(operand, elements, negated):
            return _negated_if(negated, _in(term(operand), [term(each) for each in elements]))
        case Call(function, arguments):
            return _call(function, [term(each) for each in arguments])
        case _:
            raise AssertionError(f"not an operation: {expression}")


def _negated_if(negated: bool, column: Column) -> Term:
    return Term(Type.BOOLEAN, ~column if negated else column)


def _negation(operand: Term) -> Term:
    # An integer is an error here and only here, as in the reference evaluator.
    if operand.type is Type.INTEGER:
        return error(Type.BOOLEAN)
    return Term(Type.BOOLEAN, ~cast(operand, Type.BOOLEAN).column)


def _compare(operator: str, left: Term, right: Term) -> Term:
    target = right.type if operator in ("=", "!=") else Type.INTEGER
    x, y = cast(left, target).column, cast(right, target).column
    return Term(Type.BOOLEAN, _COMPARISONS[operator](x, y))


_COMPARISONS: dict[str, Callable[[Column, Column], Column]] = {
    "=": lambda x, y: x == y,
    "!=": lambda x, y: x != y,
    "<": lambda x, y: x < y,
    "<=": lambda x, y: x <= y,
    ">": lambda x, y: x > y,
    ">=": lambda x, y: x >= y,
}


def _calculate(operator: str, left: Term, right: Term) -> Term:
    x, y = cast(left, Type.INTEGER).column, cast(right, Type.INTEGER).column
    return Term(Type.INTEGER, _ARITHMETIC[operator](x, y))


_ARITHMETIC: dict[str, Callable[[Column, Column], Column]] = {
    "+": F.try_add,
    "-": F.try_subtract,
    "*": F.try_multiply,
    # Doubles hold 32-bit integers and their quotients closely enough that cutting off the fraction is exact.
    "/": lambda x, y: F.try_divide(x.cast("double"), y.cast("double")).try_cast("int"),
    "%": F.try_mod,
}


def _combine(operator: str, operands: Sequence[Column]) -> Term:
    if operator == "XOR":
        return Term(Type.BOOLEAN, balanced(lambda x, y: x != y, operands))
    # A table of every pair of error, false and true, that is -1, 0 and 1 (`greatest` overlooks nulls). Conditions and
    # coalesces would be plainer, but in each other they double Spark's time to compile with each level.
    table = F.array(*(F.lit(decision).cast("boolean") for decision in _DECISIONS[operator]))
    return Term(Type.BOOLEAN, balanced(lambda x, y: F.get(table, _code(x) * 3 + (_code(y) + 4)), operands))


def _code(truth: Column) -> Column:
    return F.greatest(truth.cast("int"), F.lit(-1))


def _decisions(still_open: bool) -> list[bool | None]:
    """What an operator decides whose left operand counts, unless it leaves the question to the right one."""
    return [right if left is still_open else left for left in (None, False, True) for right in (None, False, True)]


_DECISIONS = {"AND": _decisions(True), "OR": _decisions(False)}


def _like(text: Column, pattern: str) -> Column:
    runs = like.runs(pattern)
    if not any(character is None for run in runs for character in run):
        match ["".join(map(str, run)) for run in runs]:
            case [whole]:
                return text == F.lit(whole)
            case [prefix, ""]:
                return F.startswith(text, F.lit(prefix))
            case ["", suffix]:
                return F.endswith(text, F.lit(suffix))
            case ["", inside, ""]:
                return F.contains(text, F.lit(inside))
    return F.rlike(text, F.lit(rf"(?s)\A(?:{like.regex(pattern)})\z"))


def _in(operand: Term, elements: Sequence[Term]) -> Column:
    typed = [cast(each, operand.type) for each in elements]
    fixed = [each.literal for each in typed if each.literal is not None]
    others = [each.column for each in typed if each.literal is None]
    if not others:
        return operand.column.isin(fixed)

    def found(x: Column) -> Column:
        hits = [(x == each).cast("int") for each in others] + ([x.isin(fixed).cast("int")] if fixed else [])
        return balanced(Column.__add__, hits) > 0

    return bind(operand, found)


def _call(name: str, arguments: Sequence[Term]) -> Term:
    found = functions.find(name, len(arguments))
    if found is None:
        return error(Type.BOOLEAN)
    function, types = found
    typed = [each if kind is None else cast(each, kind) for each, kind in zip(arguments, types, strict=True)]
    return Term(function.returns, FUNCTIONS[name](*typed))
