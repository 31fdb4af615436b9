"""The built-in functions of CESQL: their signatures and what they do.

Signatures are shared by the reference evaluator and the Spark compiler; the Python functions here belong to the
former. A function gets arguments of its parameters' types and is total: with an error it still gives a value.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from penstock.filters.cesql.values import MAX_INTEGER, MIN_INTEGER, WHITESPACE, Error, Type, Value, cast

Outcome = tuple[Value, Error | None]


@dataclass(frozen=True, slots=True)
class Function:
    """One overload of a function."""

    returns: Type
    parameters: tuple[Type | None, ...]
    """None takes any type as it is."""
    body: Callable[..., Outcome]
    rest: Type | None = None
    """Type of the arguments after the parameters, where there may be more."""

    def types(self, arity: int) -> tuple[Type | None, ...] | None:
        """The types of that many arguments, or None where it cannot be called with so many."""
        more = arity - len(self.parameters)
        if more < 0 or (more and self.rest is None):
            return None
        return self.parameters + (self.rest,) * more


def find(name: str, arity: int) -> tuple[Function, tuple[Type | None, ...]] | None:
    """The overload to call with that many arguments and the types to cast them to."""
    for function in FUNCTIONS.get(name, ()):
        if (types := function.types(arity)) is not None:
            return function, types
    return None


def _left(text: str, count: int) -> Outcome:
    return (text, Error.FUNCTION_EVALUATION) if count < 0 else (text[:count], None)


def _right(text: str, count: int) -> Outcome:
    return (text, Error.FUNCTION_EVALUATION) if count < 0 else (text[max(len(text) - count, 0) :], None)


def _substring(text: str, position: int, count: int = MAX_INTEGER) -> Outcome:
    if abs(position) > len(text) or count < 0:
        return "", Error.FUNCTION_EVALUATION
    if position == 0:
        return "", None
    start = position - 1 if position > 0 else len(text) + position
    return text[start : start + count], None


def _abs(number: int) -> Outcome:
    return (MAX_INTEGER, Error.MATH) if number == MIN_INTEGER else (abs(number), None)


def _cast_to(target: Type) -> Callable[[Value], Outcome]:
    def convert(value: Value) -> Outcome:
        result, possible = cast(value, target)
        return result, None if possible else Error.CAST

    return convert


def _is(target: Type) -> Callable[[Value], Outcome]:
    return lambda value: (cast(value, target)[1], None)


def _pure(body: Callable[..., Any]) -> Callable[..., Outcome]:
    return lambda *arguments: (body(*arguments), None)


_S, _I, _B = Type.STRING, Type.INTEGER, Type.BOOLEAN

FUNCTIONS: dict[str, tuple[Function, ...]] = {
    "LENGTH": (Function(_I, (_S,), _pure(len)),),
    "CONCAT": (Function(_S, (), _pure(lambda *texts: "".join(texts)), rest=_S),),
    "CONCAT_WS": (Function(_S, (_S,), _pure(lambda delimiter, *texts: delimiter.join(texts)), rest=_S),),
    "LOWER": (Function(_S, (_S,), _pure(str.lower)),),
    "UPPER": (Function(_S, (_S,), _pure(str.upper)),),
    "TRIM": (Function(_S, (_S,), _pure(lambda text: text.strip(WHITESPACE))),),
    "LEFT": (Function(_S, (_S, _I), _left),),
    "RIGHT": (Function(_S, (_S, _I), _right),),
    "SUBSTRING": (Function(_S, (_S, _I), _substring), Function(_S, (_S, _I, _I), _substring)),
    "ABS": (Function(_I, (_I,), _abs),),
    "INT": (Function(_I, (None,), _cast_to(_I)),),
    "BOOL": (Function(_B, (None,), _cast_to(_B)),),
    "STRING": (Function(_S, (None,), _cast_to(_S)),),
    "IS_INT": (Function(_B, (None,), _is(_I)),),
    "IS_BOOL": (Function(_B, (None,), _is(_B)),),
}


# LIKE patterns: `%` is any text, `_` any one character, and a backslash before either makes it itself. A pattern
# becomes one regular expression that Python and Java read alike. Every run between two `%` is an atomic group that
# takes its first occurrence: if a match exists, that choice leads to one, so nothing is ever tried twice and a
# hostile pattern or value cannot make matching slow.

_TOKEN = re.compile(r"\\[%_]|.", re.DOTALL)
_SPECIAL = frozenset("\\^$.|?*+()[]{}")


def runs(pattern: str) -> list[list[str | None]]:
    """The pattern cut at each `%`; a run is a list of characters, with None for any one."""
    cut: list[list[str | None]] = [[]]
    for token in _TOKEN.findall(pattern):
        match token:
            case "%":
                cut.append([])
            case "_":
                cut[-1].append(None)
            case _:
                cut[-1].append(token[-1])
    return cut


def regex(pattern: str) -> str:
    """A regular expression for whole values, to be used with a full match and with `.` matching line ends."""
    first, *others = [_run(run) for run in runs(pattern)]
    if not others:
        return first
    *middle, last = others
    return first + "".join(f"(?>.*?{run})" for run in middle if run) + f".*{last}"


def like(value: str, pattern: str) -> bool:
    """Whether the whole value matches the pattern."""
    return _compiled(pattern).fullmatch(value) is not None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(regex(pattern), re.DOTALL)


def _run(characters: list[str | None]) -> str:
    return "".join("." if each is None else f"\\{each}" if each in _SPECIAL else each for each in characters)
