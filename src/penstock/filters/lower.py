"""CESQL expressions that are no more than plain comparisons, as plain predicates.

`type = 'a' AND source LIKE 'https://%'` says what `exact` and `prefix` say, and as such it can be filed and carried as
data. The translation keeps the rule that any error means no match: where the left side of an OR reads an attribute
that is missing, the event does not match, whatever the right side says.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.filters.cesql import functions
from penstock.filters.cesql.evaluate import REQUIRED
from penstock.filters.cesql.syntax import Attribute, Combine, Compare, Exists, Expression, In, Like, Literal, Negation
from penstock.filters.predicate import NOTHING, All, AnyOf, Everything, Exact, Not, Predicate, Prefix, Suffix

MAX_SIZE = 256
"""Parts that a translation may have. Each AND and OR may double them, so that a long chain is left as it is."""


@dataclass(frozen=True, slots=True)
class _Plain:
    """A boolean expression in two parts: where it is true, and where it can be evaluated without an error."""

    true: Predicate
    sound: Predicate


def lower(expression: Expression) -> Predicate | None:
    """The plain predicate that holds exactly where the expression passes; None where there is none."""
    if isinstance(expression, Attribute):
        return Exact(expression.name, "true")
    plain = _plain(expression)
    return None if plain is None else plain.true


def _plain(expression: Expression) -> _Plain | None:  # noqa: PLR0911  # one return per kind
    match expression:
        case Literal(bool() as value):
            return _Plain(Everything() if value else NOTHING, Everything())
        case Exists(name):
            return _Plain(Everything() if name in REQUIRED else _there(name), Everything())
        case Compare("=", Attribute(name), Literal(str() as value)):
            return _Plain(Exact(name, value), _there(name))
        case Compare("!=", Attribute(name), Literal(str() as value)):
            return _negated(_Plain(Exact(name, value), _there(name)))
        case In(Attribute(name), elements, negated):
            return _in(name, elements, negated)
        case Like(Attribute(name), pattern, negated):
            return _like(name, pattern, negated)
        case Negation(operand):
            inner = _plain(operand)
            return None if inner is None else _negated(inner)
        case Combine():
            return _combine(expression)
        case _:
            return None


def _there(name: str) -> Predicate:
    # Every text starts with the empty one, so this asks only whether there is a text.
    return Prefix(name, "")


def _negated(plain: _Plain) -> _Plain:
    return _Plain(_all(plain.sound, Not(plain.true)), plain.sound)


def _all(left: Predicate, right: Predicate) -> Predicate:
    match left, right:
        case Everything(), other:
            return other
        case other, Everything():
            return other
        case _:
            return left if left == right else All((left, right))


def _in(name: str, elements: tuple[Expression, ...], negated: bool) -> _Plain | None:
    values = [each.value for each in elements if isinstance(each, Literal) and isinstance(each.value, str)]
    if len(values) < len(elements):
        return None
    found = _Plain(AnyOf(tuple(Exact(name, value) for value in values)), _there(name))
    return _negated(found) if negated else found


def _like(name: str, pattern: str, negated: bool) -> _Plain | None:
    runs = functions.runs(pattern)
    if any(character is None for run in runs for character in run):
        return None
    texts = ["".join(map(str, run)) for run in runs]
    match texts:
        case [text]:
            found: Predicate = Exact(name, text)
        case [text, ""]:
            found = Prefix(name, text)
        case ["", text]:
            found = Suffix(name, text)
        case _:
            return None
    plain = _Plain(found, _there(name))
    return _negated(plain) if negated else plain


def _combine(expression: Combine) -> _Plain | None:
    combined, *others = map(_plain, expression.operands)
    for other in others:
        if combined is None or other is None:
            return None
        combined = _CONNECTIVES[expression.operator](combined, other)
        if _size(combined.true) + _size(combined.sound) > MAX_SIZE:
            return None
    return combined


def _and(left: _Plain, right: _Plain) -> _Plain:
    both = _all(left.true, right.true)
    if left.sound == right.sound:
        return _Plain(both, left.sound)
    # Sound where the left side is, and either false, which decides, or followed by a right side that is sound too.
    return _Plain(both, AnyOf((_all(left.sound, Not(left.true)), _all(left.true, right.sound))))


def _or(left: _Plain, right: _Plain) -> _Plain:
    if left.sound == right.sound:
        return _Plain(AnyOf((left.true, right.true)), left.sound)
    return _Plain(AnyOf((left.true, _all(left.sound, right.true))), AnyOf((left.true, _all(left.sound, right.sound))))


def _xor(left: _Plain, right: _Plain) -> _Plain:
    sound = _all(left.sound, right.sound)
    differ = All((AnyOf((left.true, right.true)), Not(All((left.true, right.true)))))
    return _Plain(_all(sound, differ), sound)


_CONNECTIVES = {"AND": _and, "OR": _or, "XOR": _xor}


def _size(predicate: Predicate) -> int:
    match predicate:
        case All(children) | AnyOf(children):
            return 1 + sum(map(_size, children))
        case Not(child):
            return 1 + _size(child)
        case _:
            return 1
