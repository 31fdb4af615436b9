"""A predicate as data: in conjunctive form, for the router to carry along with a route instead of compiling it.

All clauses must hold; a clause holds where one of its atoms does; an atom on a missing attribute is false before it is
negated. Negation moves inwards freely, because a predicate either holds or does not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal

from penstock.filters.lower import lower
from penstock.filters.predicate import (
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

LIMIT = 64
"""Atoms that a form may have: beyond that an expression of the query is cheaper."""


@dataclass(frozen=True, slots=True)
class Atom:
    """One comparison of one attribute."""

    op: Literal["exact", "present", "prefix", "suffix", "gt", "gte", "lt", "lte"]
    attribute: str
    value: str = ""
    """Empty for `present`, a number in text for `gt` and its like. An empty prefix or suffix holds for every value, the
    empty one included."""
    negated: bool = False


Clause = tuple[Atom, ...]


def conjunctive(predicate: Predicate, limit: int = LIMIT) -> tuple[Clause, ...] | None:
    """The clauses of the predicate, none where it holds for everything.

    None where it has no such form: it would need more atoms than the limit, holds a CESQL expression that is more
    than plain comparisons, or holds for no event at all.
    """
    clauses = _form(predicate, False, limit)
    return None if clauses is None or () in clauses else clauses


def exact_atom(predicate: Predicate) -> Exact | None:
    """An exact comparison that must hold whenever the predicate does: what a route can be filed under."""
    match predicate:
        case Exact():
            return predicate
        case All(children):
            return next((found for child in children if (found := exact_atom(child)) is not None), None)
        case AnyOf((child,)):
            return exact_atom(child)
        case Cesql(_, expression):
            plain = lower(expression)
            return None if plain is None else exact_atom(plain)
        case _:
            return None


def _form(predicate: Predicate, negated: bool, limit: int) -> tuple[Clause, ...] | None:  # noqa: PLR0911  # one per kind
    match predicate:
        case Everything():
            return ((),) if negated else ()
        case Exact(attribute, value):
            return ((Atom("exact", attribute, value, negated),),)
        case Present(attribute):
            return ((Atom("present", attribute, "", negated),),)
        case Prefix(attribute, value):
            return ((Atom("prefix", attribute, value, negated),),)
        case Suffix(attribute, value):
            return ((Atom("suffix", attribute, value, negated),),)
        case Compared(attribute, operator, value):
            return ((Atom(operator, attribute, repr(value), negated),),)
        case Not(child):
            return _form(child, not negated, limit)
        case All(children):
            return _disjunction(children, True, limit) if negated else _conjunction(children, False, limit)
        case AnyOf(children):
            return _conjunction(children, True, limit) if negated else _disjunction(children, False, limit)
        case Cesql(_, expression):
            plain = lower(expression)
            return None if plain is None else _form(plain, negated, limit)


def _conjunction(children: Iterable[Predicate], negated: bool, limit: int) -> tuple[Clause, ...] | None:
    clauses: list[Clause] = []
    for child in children:
        form = _form(child, negated, limit)
        if form is None:
            return None
        clauses += form
    return _reduced(clauses, limit)


def _disjunction(children: Iterable[Predicate], negated: bool, limit: int) -> tuple[Clause, ...] | None:
    clauses: tuple[Clause, ...] = ((),)
    for child in children:
        form = _form(child, negated, limit)
        if form is None or len(clauses) * len(form) > limit:
            return None
        reduced = _reduced([left + right for left, right in product(clauses, form)], limit)
        if reduced is None:
            return None
        clauses = reduced
    return clauses


def _reduced(clauses: Iterable[Clause], limit: int) -> tuple[Clause, ...] | None:
    """Without repeated atoms and without clauses that always hold or follow from another; None if still too large."""
    kept: list[Clause] = []
    for clause in sorted((tuple(dict.fromkeys(each)) for each in clauses), key=len):
        implied = any(set(shorter) <= set(clause) for shorter in kept)
        if not implied and not any(replace(atom, negated=not atom.negated) in clause for atom in clause):
            kept.append(clause)
    return tuple(kept) if sum(map(len, kept)) <= limit else None
