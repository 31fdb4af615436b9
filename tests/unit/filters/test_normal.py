"""Conjunctive form and translation of CESQL: as data or as plain predicates, the meaning stays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.filters.cesql import parse as parse_cesql
from penstock.filters.cesql import syntax
from penstock.filters.cesql.evaluate import passes
from penstock.filters.evaluate import matches
from penstock.filters.lower import lower
from penstock.filters.normal import Atom, Clause, conjunctive, exact_atom
from penstock.filters.parse import parse
from penstock.filters.predicate import NOTHING, All, AnyOf, Everything, Exact, Not, Predicate, Prefix, Present, Suffix

NAMES = st.sampled_from(["a", "b", "c"])
TEXTS = st.sampled_from(["", "x", "y", "xy", "yx"])
EVENTS = st.dictionaries(NAMES, TEXTS)

PREDICATES: st.SearchStrategy[Predicate] = st.recursive(
    st.one_of(
        st.just(Everything()),
        st.builds(Present, NAMES),
        *(st.builds(kind, NAMES, TEXTS) for kind in (Exact, Prefix, Suffix)),
    ),
    lambda inner: st.one_of(
        st.builds(Not, inner),
        *(st.builds(kind, st.lists(inner, max_size=3).map(tuple)) for kind in (All, AnyOf)),
    ),
    max_leaves=6,
)

PLAIN: st.SearchStrategy[syntax.Expression] = st.recursive(
    st.one_of(
        st.builds(syntax.Exists, NAMES),
        st.builds(syntax.Literal, st.booleans()),
        st.builds(
            syntax.Compare,
            st.sampled_from(["=", "!="]),
            st.builds(syntax.Attribute, NAMES),
            st.builds(syntax.Literal, TEXTS),
        ),
        st.builds(
            syntax.Like, st.builds(syntax.Attribute, NAMES), st.sampled_from(["x%", "%x", "x", "%"]), st.booleans()
        ),
        st.builds(
            syntax.In,
            st.builds(syntax.Attribute, NAMES),
            st.lists(st.builds(syntax.Literal, TEXTS), min_size=1, max_size=3).map(tuple),
            st.booleans(),
        ),
    ),
    lambda inner: st.one_of(
        st.builds(syntax.Negation, inner),
        st.builds(
            syntax.Combine, st.sampled_from(["AND", "OR", "XOR"]), st.lists(inner, min_size=2, max_size=3).map(tuple)
        ),
    ),
    max_leaves=5,
)


def _holds(clauses: tuple[Clause, ...], event: dict[str, str]) -> bool:
    kinds: dict[str, type[Exact | Prefix | Suffix]] = {"exact": Exact, "prefix": Prefix, "suffix": Suffix}

    def atom_holds(atom: Atom) -> bool:
        plain = Present(atom.attribute) if atom.op == "present" else kinds[atom.op](atom.attribute, atom.value)
        return matches(plain, event) is not atom.negated

    return all(any(map(atom_holds, clause)) for clause in clauses)


@given(PREDICATES, EVENTS)
def test_the_clauses_hold_where_the_predicate_does(predicate: Predicate, event: dict[str, str]) -> None:
    clauses = conjunctive(predicate)
    if clauses is None:
        # So few parts never pass the limit, so it is a predicate that nothing satisfies.
        assert not matches(predicate, event)
    else:
        assert () not in clauses
        assert _holds(clauses, event) is matches(predicate, event)


@given(PREDICATES, EVENTS)
def test_the_exact_atom_holds_whenever_the_predicate_does(predicate: Predicate, event: dict[str, str]) -> None:
    atom = exact_atom(predicate)
    if atom is not None and matches(predicate, event):
        assert matches(atom, event)


@given(PLAIN, EVENTS)
def test_a_translated_expression_passes_the_same_events(expression: syntax.Expression, event: dict[str, str]) -> None:
    plain = lower(expression)
    if plain is not None:
        assert matches(plain, event) is passes(expression, event)


def test_a_plain_expression_can_be_filed() -> None:
    predicate = parse({}, [{"cesql": "type = 'a' AND source LIKE 'https://%'"}])
    assert conjunctive(predicate) == ((Atom("exact", "type", "a"),), (Atom("prefix", "source", "https://"),))
    assert exact_atom(predicate) == Exact("type", "a")


def test_alternatives_of_one_attribute_are_one_clause() -> None:
    clause = (Atom("exact", "type", "a"), Atom("exact", "type", "b"))
    assert conjunctive(parse({}, [{"cesql": "type = 'a' OR type = 'b'"}])) == (clause,)
    assert conjunctive(parse({}, [{"cesql": "type IN ('a', 'b')"}])) == (clause,)


@pytest.mark.parametrize("text", ["INT(n) = 1", "n < 5", "type LIKE 'a_'", "type = source", "NOT flag"])
def test_other_expressions_stay_expressions(text: str) -> None:
    assert lower(parse_cesql(text)) is None
    assert conjunctive(parse({}, [{"cesql": text}])) is None


def test_a_long_chain_over_many_attributes_is_given_up_quickly() -> None:
    text = " OR ".join(f"a{n} = 'x'" for n in range(300))
    assert conjunctive(parse({}, [{"cesql": text}])) is None


def test_a_form_larger_than_the_limit_is_given_up() -> None:
    pairs = AnyOf(tuple(All((Exact("a", str(n)), Exact("b", str(n)))) for n in range(10)))
    assert conjunctive(pairs) is None
    assert conjunctive(AnyOf(tuple(Exact("a", str(n)) for n in range(10))), limit=9) is None


def test_everything_and_nothing() -> None:
    assert conjunctive(Everything()) == ()
    assert conjunctive(NOTHING) is None
