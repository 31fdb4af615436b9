"""The reference evaluator of CESQL: a value and the errors met on the way.

An operator or function whose operand met an error gives the zero of its own type and passes the errors on; where only
a cast of its operands fails it continues with the cast's value. AND and OR do not look at the right operand when the
left one decides. Attributes are strings, as most bindings of CloudEvents carry no types.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import eq, ge, gt, le, lt, ne
from typing import Any

from penstock.filters.cesql import functions
from penstock.filters.cesql.functions import like
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
from penstock.filters.cesql.values import Error, Type, Value, cast, in_range, type_of

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": eq,
    "!=": ne,
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
}

REQUIRED = frozenset({"specversion", "id", "source", "type"})
"""Attributes that exist in every event, whatever the evaluator is given."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The outcome of an evaluation."""

    value: Value
    errors: tuple[Error, ...] = ()


def passes(expression: Expression, attributes: Mapping[str, str]) -> bool:
    """Whether the expression, used as a filter, lets the event pass: it is true and nothing went wrong.

    A lone attribute passes where its text is `true`: a Boolean attribute looks like that in every binding.
    """
    result = evaluate(expression, attributes)
    accepted = "true" if isinstance(expression, Attribute) else True
    return not result.errors and result.value == accepted and type_of(result.value) is type_of(accepted)


def evaluate(expression: Expression, attributes: Mapping[str, str]) -> Evaluation:  # noqa: PLR0911  # one return per kind
    """Evaluate over an event's attributes, in their canonical text."""
    match expression:
        case Literal(value):
            return Evaluation(value)
        case Attribute(name):
            text = attributes.get(name)
            return Evaluation(False, (Error.MISSING_ATTRIBUTE,)) if text is None else Evaluation(text)
        case Exists(name):
            return Evaluation(name in REQUIRED or name in attributes)
        case Negation(operand):
            return _negation(evaluate(operand, attributes))
        case Minus(operand):
            return _calculate("-", Evaluation(0), evaluate(operand, attributes))
        case Compare(operator, left, right):
            return _compare(operator, evaluate(left, attributes), evaluate(right, attributes))
        case Calculate(operator, left, right):
            return _calculate(operator, evaluate(left, attributes), evaluate(right, attributes))
        case Combine():
            return _combine(expression, attributes)
        case Like(operand, pattern, negated):
            return _like(evaluate(operand, attributes), pattern, negated)
        case In(operand, elements, negated):
            return _in(evaluate(operand, attributes), [evaluate(each, attributes) for each in elements], negated)
        case Call(function, arguments):
            return _call(function, [evaluate(each, attributes) for each in arguments])


def _cast_all(results: list[Evaluation], types: list[Type | None]) -> tuple[list[Value], tuple[Error, ...]]:
    """The values in these types (None: as they are) with an error for each that does not fit."""
    values, errors = [], []
    for result, target in zip(results, types, strict=True):
        value, possible = (result.value, True) if target is None else cast(result.value, target)
        values.append(value)
        if not possible:
            errors.append(Error.CAST)
    return values, tuple(errors)


def _errors(*results: Evaluation) -> tuple[Error, ...]:
    return tuple(error for result in results for error in result.errors)


def _negation(operand: Evaluation) -> Evaluation:
    if operand.errors:
        return Evaluation(False, operand.errors)
    if type_of(operand.value) is Type.INTEGER:
        # The table of casts admits it, but the public test kit demands this error of `NOT 10`.
        return Evaluation(True, (Error.CAST,))
    (value,), errors = _cast_all([operand], [Type.BOOLEAN])
    return Evaluation(not value, errors)


def _compare(operator: str, left: Evaluation, right: Evaluation) -> Evaluation:
    if errors := _errors(left, right):
        return Evaluation(False, errors)
    # Equality exists for every type and takes that of the right operand; order exists for integers only.
    target = type_of(right.value) if operator in ("=", "!=") else Type.INTEGER
    (x, y), errors = _cast_all([left, right], [target, target])
    return Evaluation(_COMPARISONS[operator](x, y), errors)


def _calculate(operator: str, left: Evaluation, right: Evaluation) -> Evaluation:
    if errors := _errors(left, right):
        return Evaluation(0, errors)
    values, errors = _cast_all([left, right], [Type.INTEGER, Type.INTEGER])
    number = _arithmetic(operator, int(values[0]), int(values[1]))
    if number is None or not in_range(number):
        return Evaluation(0, (*errors, Error.MATH))
    return Evaluation(number, errors)


def _arithmetic(operator: str, x: int, y: int) -> int | None:
    """The exact result, however large; None for a division by zero."""
    match operator:
        case "+":
            return x + y
        case "-":
            return x - y
        case "*":
            return x * y
    if y == 0:
        return None
    quotient = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
    return quotient if operator == "/" else x - quotient * y


def _combine(expression: Combine, attributes: Mapping[str, str]) -> Evaluation:
    truths = 0
    for operand in expression.operands:
        result = evaluate(operand, attributes)
        if result.errors:
            return Evaluation(False, result.errors)
        value, possible = cast(result.value, Type.BOOLEAN)
        if not possible:
            return Evaluation(False, (Error.CAST,))
        if expression.operator != "XOR" and value is (expression.operator == "OR"):
            return Evaluation(value)
        truths += bool(value)
    return Evaluation(truths % 2 == 1 if expression.operator == "XOR" else expression.operator == "AND")


def _like(operand: Evaluation, pattern: str, negated: bool) -> Evaluation:
    if operand.errors:
        return Evaluation(False, operand.errors)
    (text,), _ = _cast_all([operand], [Type.STRING])
    return Evaluation(like(str(text), pattern) is not negated)


def _in(operand: Evaluation, elements: list[Evaluation], negated: bool) -> Evaluation:
    if errors := _errors(operand, *elements):
        return Evaluation(False, errors)
    values, errors = _cast_all(elements, [type_of(operand.value)] * len(elements))
    return Evaluation((operand.value in values) is not negated, errors)


def _call(name: str, arguments: list[Evaluation]) -> Evaluation:
    found = functions.find(name, len(arguments))
    if found is None:
        return Evaluation(False, (*_errors(*arguments), Error.MISSING_FUNCTION))
    function, types = found
    if errors := _errors(*arguments):
        return Evaluation(function.returns.zero, errors)
    values, errors = _cast_all(arguments, list(types))
    value, error = function.body(*values)
    return Evaluation(value, errors if error is None else (*errors, error))
