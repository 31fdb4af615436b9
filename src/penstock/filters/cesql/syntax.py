"""The syntax tree of a CESQL expression.

Parentheses leave no trace but the shape of the tree; names of attributes are in lower case and names of functions in
upper case, since neither depends on how it was written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as OneOf

Comparison = OneOf["=", "!=", "<", "<=", ">", ">="]
Arithmetic = OneOf["+", "-", "*", "/", "%"]
Connective = OneOf["AND", "OR", "XOR"]


@dataclass(frozen=True, slots=True)
class Literal:
    """A boolean, a 32-bit integer or a string."""

    value: bool | int | str


@dataclass(frozen=True, slots=True)
class Attribute:
    """The value of a context attribute or extension."""

    name: str


@dataclass(frozen=True, slots=True)
class Exists:
    """Whether the event has the attribute."""

    name: str


@dataclass(frozen=True, slots=True)
class Negation:
    """`NOT x`."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class Minus:
    """`-x`."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class Compare:
    """`x = y` and its kin; `<>` is written `!=` here."""

    operator: Comparison
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Calculate:
    """Integer arithmetic."""

    operator: Arithmetic
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Combine:
    """`AND`, `OR` (both short-circuit) and `XOR` of two or more, however they were grouped: each is associative."""

    operator: Connective
    operands: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Like:
    """`x [NOT] LIKE 'pattern'`."""

    operand: Expression
    pattern: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class In:
    """`x [NOT] IN (y1, y2)`."""

    operand: Expression
    elements: tuple[Expression, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """`FUNCTION(x, y)`."""

    function: str
    arguments: tuple[Expression, ...]


Expression = Literal | Attribute | Exists | Negation | Minus | Compare | Calculate | Combine | Like | In | Call


def children(expression: Expression) -> tuple[Expression, ...]:
    """The operands and arguments of an expression, left to right."""
    match expression:
        case Literal() | Attribute() | Exists():
            return ()
        case Negation(operand) | Minus(operand) | Like(operand):
            return (operand,)
        case Compare(_, left, right) | Calculate(_, left, right):
            return (left, right)
        case Combine(_, operands):
            return operands
        case In(operand, elements):
            return (operand, *elements)
        case Call(_, arguments):
            return arguments


def depth(expression: Expression) -> int:
    """How many levels the tree has; counted without recursion, because there may be too many."""
    deepest, level = 0, [expression]
    while level:
        deepest += 1
        level = [child for parent in level for child in children(parent)]
    return deepest
