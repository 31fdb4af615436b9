"""Types, values, errors and casts of CESQL.

Every cast is total: it gives a value of the target type, and says whether it had to make one up.
"""

from __future__ import annotations

import re
from enum import Enum

Value = bool | int | str


class Type(Enum):
    """The three types of values, each with its zero."""

    STRING = "String"
    INTEGER = "Integer"
    BOOLEAN = "Boolean"

    @property
    def zero(self) -> Value:
        return _ZEROS[self]


_ZEROS: dict[Type, Value] = {Type.STRING: "", Type.INTEGER: 0, Type.BOOLEAN: False}


class Error(Enum):
    """What can go wrong in an evaluation; the texts are those of the public test kit."""

    MATH = "math"
    CAST = "cast"
    MISSING_ATTRIBUTE = "missingAttribute"
    MISSING_FUNCTION = "missingFunction"
    FUNCTION_EVALUATION = "functionEvaluation"


MIN_INTEGER, MAX_INTEGER = -(2**31), 2**31 - 1

WHITESPACE = "".join(map(chr, [*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B)])) + (
    "\u2028\u2029\u202f\u205f\u3000"
)
"""Characters with Unicode's property White_Space; `str.isspace` holds for some control characters as well."""

INTEGER_TEXT = r"[+-]?[0-9]+"
"""Texts that can be read as an integer, as a regular expression; their value may still be out of range."""

_INTEGER_TEXT = re.compile(INTEGER_TEXT)


def type_of(value: Value) -> Type:
    """The type of a value. Booleans are integers to Python, not to CESQL."""
    if isinstance(value, bool):
        return Type.BOOLEAN
    return Type.INTEGER if isinstance(value, int) else Type.STRING


def in_range(value: int) -> bool:
    """Whether the number is a 32-bit integer."""
    return MIN_INTEGER <= value <= MAX_INTEGER


def integer(text: str) -> int | None:
    """The 32-bit integer that the text stands for, if any."""
    if not _INTEGER_TEXT.fullmatch(text):
        return None
    # Only what counts is converted: Python refuses thousands of digits, be they zeros.
    digits = text.lstrip("+-0") or "0"
    if len(digits) > 10:
        return None
    number = -int(digits) if text[0] == "-" else int(digits)
    return number if in_range(number) else None


def cast(value: Value, target: Type) -> tuple[Value, bool]:
    """The value as the target type, and whether that is possible; the target's zero where it is not."""
    if type_of(value) is target:
        return value, True
    match target:
        case Type.STRING:
            return (str(value).lower() if isinstance(value, bool) else str(value)), True
        case Type.INTEGER:
            return _to_integer(value)
        case Type.BOOLEAN:
            return _to_boolean(value)


def _to_integer(value: Value) -> tuple[Value, bool]:
    if not isinstance(value, str):
        return int(value), True
    number = integer(value)
    return number or 0, number is not None


def _to_boolean(value: Value) -> tuple[Value, bool]:
    if not isinstance(value, str):
        return value != 0, True
    lower = value.lower()
    return lower == "true", lower in ("true", "false")
