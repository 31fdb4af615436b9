"""Filters on data: what they mean, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.events.event import CloudEvent
from penstock.filters.data.facts import facts, facts_asked, key_of, path_of, variant_path
from penstock.filters.evaluate import matches, matches_event
from penstock.filters.normal import Atom, conjunctive
from penstock.filters.parse import parse, problems_of
from penstock.filters.validate import filters_on_data
from penstock.filters.walk import attributes_asked

BASE = {"specversion": "1.0", "id": "1", "source": "/a", "type": "order"}
ORDER = {
    "order": {"country": "DE", "total": 120.5, "count": 3, "paid": True, "note": None, "lines": [1, 2], "of": {"a": 1}},
    "a.b": "dotted",
    "back\\slash": 1,
    "": "unnamed",
}


def event(data: bytes | None, content_type: str | None = "application/json", **attributes: str) -> CloudEvent:
    kind = {} if content_type is None else {"datacontenttype": content_type}
    return CloudEvent({**BASE, **kind, **attributes}, data)


def holds(filters: list[dict[str, Any]] | dict[str, Any], data: Any = ORDER) -> bool:
    found = data if isinstance(data, CloudEvent) else event(json.dumps(data).encode())
    return matches_event(parse({}, filters if isinstance(filters, list) else [{"data": filters}]), found)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ({"order.country": "DE"}, True),
        ({"order.country": "de"}, False),
        ({"order.country": {"prefix": "D"}}, True),
        ({"order.country": {"suffix": "E"}}, True),
        ({"order.country": {"prefix": "D", "suffix": "X"}}, False),
        ({"order.country": {"in": ["FR", "DE"]}}, True),
        ({"order.country": {"in": ["FR", 1, None]}}, False),
        ({"order.country": {"exists": True}}, True),
        ({"order.country": {"exists": False}}, False),
        ({"order.city": {"exists": False}}, True),
        ({"order.total": 120.5}, True),
        ({"order.total": "120.5"}, False),
        ({"order.total": {"gte": 100, "lt": 500}}, True),
        ({"order.total": {"gt": 120.5}}, False),
        ({"order.total": {"gte": 120.5, "lte": 120.5}}, True),
        ({"order.total": {"prefix": "1"}}, False),
        ({"order.country": {"gt": 0}}, False),
        ({"order.count": 3}, True),
        ({"order.count": 3.0}, True),
        ({"order.count": 1}, False),
        ({"order.paid": True}, True),
        ({"order.paid": "true"}, False),
        ({"order.paid": 1}, False),
        ({"order.note": {"in": [None]}}, True),
        ({"order.note": {"exists": True}}, True),
        ({"order.city": {"in": [None]}}, False),
        ({"order.lines": {"exists": True}}, True),
        ({"order.lines": 1}, False),
        ({"order.lines.0": 1}, False),
        ({"order.of": {"exists": True}}, True),
        ({"order.of.a": 1}, True),
        ({"order.country.a": {"exists": True}}, False),
        ({r"a\.b": "dotted"}, True),
        ({"a.b": "dotted"}, False),
        ({r"back\\slash": 1}, True),
        ({"order.country": "DE", "order.count": 3}, True),
        ({"order.country": "DE", "order.count": 4}, False),
    ],
)
def test_a_condition_asks_for_a_value_of_its_own_type(condition: dict[str, Any], expected: bool) -> None:
    assert holds(condition) is expected
    assert holds([{"not": {"data": condition}}]) is not expected


@pytest.mark.parametrize(
    "number", ["3", "3.0", "3e0", "30e-1", "0.3E+1", "3.000000000000000000000000000000000000000000"]
)
def test_a_number_is_a_number_however_it_is_written(number: str) -> None:
    assert holds({"n": 3}, event(b'{"n": %s}' % number.encode()))


@pytest.mark.parametrize(
    ("written", "condition", "expected"),
    [
        ("9007199254740991", 9007199254740991, True),
        ("9007199254740993", 9007199254740991, False),
        ("1e20", 1e20, True),
        ("100000000000000000001", 1e20, True),
        ("1e999", {"gt": 1e308}, True),
        ("-1e999", {"lt": -1e308}, True),
        ("-0", 0, True),
        ("-0.0", 0, True),
        ("0.1", 0.1, True),
        ("0.10", 0.1, True),
        ("1" * 1000, {"gt": 1}, True),
        ("1" * 1001, {"gt": 1}, False),
    ],
)
def test_numbers_at_the_edges(written: str, condition: Any, expected: bool) -> None:
    assert holds({"n": condition}, event(f'{{"n": {written}}}'.encode())) is expected


@pytest.mark.parametrize(
    ("data", "content_type"),
    [
        (None, "application/json"),
        (b"", "application/json"),
        (b'{"a": 1', "application/json"),
        (b'{"a": 1} more', "application/json"),
        (b'{"a": 1}{"a": 1}', "application/json"),
        (b'{"a": 1, "b": NaN}', "application/json"),
        (b'{"a": 1, "b": 01}', "application/json"),
        (b'{"a": 1, "b": "\xff"}', "application/json"),
        (b'{"a": 1, "b": "\\ud800"}', "application/json"),
        (b"{'a': 1}", "application/json"),
        (b'\xef\xbb\xbf{"a": 1}', "application/json"),
        (b'{"a": 1}', None),
        (b'{"a": 1}', "text/plain"),
        (b'{"a": 1}', "application/jsonlines"),
        (b'{"a": 1}', "application/x;json"),
    ],
)
def test_without_json_data_neither_a_filter_nor_its_opposite_holds(
    data: bytes | None, content_type: str | None
) -> None:
    found = event(data, content_type)
    assert not holds({"a": 1}, found)
    assert not holds({"a": {"exists": False}}, found)
    assert not holds([{"not": {"data": {"a": 1}}}], found)
    assert not holds([{"not": {"all": [{"data": {"a": 1}}, {"exact": {"type": "order"}}]}}], found)
    assert holds([{"any": [{"data": {"a": 1}}, {"exact": {"type": "order"}}]}], found)
    assert holds([{"not": {"all": [{"data": {"a": 1}}, {"exact": {"type": "other"}}]}}], found)


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "text/json",
        "application/problem+json",
        "Application/JSON; charset=utf-8",
        "application/json ",
    ],
)
def test_every_media_type_of_json_will_do(content_type: str) -> None:
    assert holds({"a": 1}, event(b'{"a": 1}', content_type))


def test_of_a_member_that_comes_twice_the_last_counts() -> None:
    found = event(b'{"a": {"b": 1}, "a": {"c": 2}}')
    assert holds({"a.c": 2}, found)
    assert not holds({"a.b": {"exists": True}}, found)


def test_a_filter_on_data_stands_beside_others() -> None:
    filters: list[dict[str, Any]] = [{"exact": {"type": "order"}}, {"not": {"data": {"order.country": "FR"}}}]
    assert holds(filters)
    assert not holds(filters, event(json.dumps(ORDER).encode(), type="other"))


NUMBERS = st.sampled_from([0, 1, 2.5, -1])
VALUES = st.sampled_from(["a", "ab", "", True, False]) | NUMBERS
CONDITIONS = st.one_of(
    VALUES,
    st.builds(lambda op, text: {op: text}, st.sampled_from(["prefix", "suffix"]), st.sampled_from(["a", "b", ""])),
    st.dictionaries(st.sampled_from(["gt", "gte", "lt", "lte"]), NUMBERS, min_size=1, max_size=2),
    st.builds(lambda values: {"in": values}, st.lists(VALUES | st.none(), min_size=1, max_size=3)),
    st.builds(lambda there: {"exists": there}, st.booleans()),
)
FILTERS = st.recursive(
    st.builds(
        lambda found: {"data": found}, st.dictionaries(st.sampled_from(["x", "y", "x.z"]), CONDITIONS, min_size=1)
    )
    | st.builds(lambda text: {"exact": {"type": text}}, st.sampled_from(["order", "b"])),
    lambda inner: st.one_of(
        st.builds(lambda child: {"not": child}, inner),
        st.builds(
            lambda kind, some: {kind: some}, st.sampled_from(["all", "any"]), st.lists(inner, min_size=1, max_size=3)
        ),
    ),
    max_leaves=4,
)
DATA = st.dictionaries(
    st.sampled_from(["x", "y"]), VALUES | st.none() | st.just([1]) | st.builds(lambda z: {"z": z}, VALUES)
)


def truth(element: dict[str, Any], found: CloudEvent, data: dict[str, Any] | None) -> bool | None:
    """The meaning in three values, written down anew: None where the data decides and cannot be read."""
    match element:
        case {"not": child}:
            inner = truth(child, found, data)
            return None if inner is None else not inner
        case {"all": children}:
            every = [truth(child, found, data) for child in children]
            return False if False in every else None if None in every else True
        case {"any": children}:
            every = [truth(child, found, data) for child in children]
            return True if True in every else None if None in every else False
        case {"data": condition}:
            return None if data is None else all(holds({key: each}, data) for key, each in condition.items())
        case _:
            return matches_event(parse({}, [element]), found)


@given(FILTERS, st.none() | DATA)
def test_what_cannot_be_read_is_neither_true_nor_false(element: dict[str, Any], data: dict[str, Any] | None) -> None:
    found = event(b"no json" if data is None else json.dumps(data).encode())
    assert holds([element], found) is (truth(element, found, data) is True)


@given(FILTERS, st.none() | DATA)
def test_as_clauses_the_meaning_stays(element: dict[str, Any], data: dict[str, Any] | None) -> None:
    predicate = parse({}, [element])
    found = event(b"no json" if data is None else json.dumps(data).encode())
    clauses = conjunctive(predicate)
    known = {**found.attributes, **facts(found, facts_asked(predicate))}
    if clauses is None:
        assert not matches(predicate, known)
    else:
        assert all(any(_holds(atom, known) for atom in clause) for clause in clauses) is matches(predicate, known)


def _holds(atom: Atom, known: dict[str, str]) -> bool:
    value = known.get(atom.attribute)
    if value is None:
        return atom.negated
    compare: dict[str, Any] = {
        "exact": lambda: value == atom.value,
        "prefix": lambda: value.startswith(atom.value),
        "suffix": lambda: value.endswith(atom.value),
        "gt": lambda: float(value) > float(atom.value),
        "gte": lambda: float(value) >= float(atom.value),
        "lt": lambda: float(value) < float(atom.value),
        "lte": lambda: float(value) <= float(atom.value),
    }
    return bool(compare[atom.op]()) is not atom.negated


def test_an_exact_value_and_one_of_several_are_single_clauses_that_a_route_can_be_filed_under() -> None:
    assert conjunctive(parse({}, [{"data": {"a.b": "x"}}])) == ((Atom("exact", "string:a.b", "x"),),)
    several = (Atom("exact", "number:n", "1"), Atom("exact", "number:n", "2"))
    assert conjunctive(parse({}, [{"data": {"n": {"in": [1, 2.0]}}}])) == (several,)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ([1], "invalid value: [1]: filters[0].data\nexpected a map of paths into the data"),
        ({"": 1}, 'invalid key name "": filters[0].data[]'),
        ({"a..b": 1}, 'invalid key name "a..b": filters[0].data[a..b]\nexpected names of members joined by dots'),
        ({"a\\b": 1}, r'invalid key name "a\b": filters[0].data[a\b]'),
        ({"a\\.'\"": 1}, "cannot have both kinds of quotes"),
        (
            {"a": None},
            "invalid value: null: filters[0].data[a]\nnull is lost when the object is applied again; ask for it",
        ),
        ({"a": {}}, "invalid value: {}: filters[0].data[a]\nexpected a string, a number, true, false, or an object of"),
        ({"a": [1]}, "invalid value: [1]: filters[0].data[a]"),
        (
            {"a": {"equals": 1}},
            "must not set the field(s): filters[0].data[a].equals\noperators are prefix, suffix, gt",
        ),
        ({"a": {"prefix": 1}}, "invalid value: 1: filters[0].data[a].prefix\nexpected a string"),
        ({"a": {"gt": "1"}}, "invalid value: 1: filters[0].data[a].gt\nexpected a number"),
        ({"a": {"gt": True}}, "invalid value: true: filters[0].data[a].gt\nexpected a number"),
        ({"a": {"in": []}}, "invalid value: []: filters[0].data[a].in\nexpected a list of values, at least one"),
        (
            {"a": {"in": [[1]]}},
            "invalid value: [1]: filters[0].data[a].in[0]\nexpected strings, numbers, true, false or",
        ),
        ({"a": {"exists": "true"}}, "invalid value: true: filters[0].data[a].exists\nexpected true or false"),
        ({"a": 2**53}, "whole numbers beyond 9007199254740991 cannot be distinguished from their neighbours"),
        ({"a": float("inf")}, "expected a finite number"),
        ({"a": "\ud800"}, "expected a text that an event can hold"),
    ],
)
def test_what_is_wrong_is_told(data: Any, text: str) -> None:
    (problem,) = problems_of({}, [{"data": data}])
    assert text in str(problem)


@given(st.lists(st.text(min_size=1), min_size=1).map(tuple))
def test_a_key_can_be_made_of_every_path(path: tuple[str, ...]) -> None:
    assert path_of(key_of(path)) == path


def test_sparks_paths_quote_what_they_must() -> None:
    assert variant_path(("a b", "c.d", "e['f")) == """.a b['c.d']["e['f"]"""
    assert variant_path(("a.'\"",)) is None


def test_filters_that_ask_for_data_are_found_wherever_they_are() -> None:
    asks = {"data": {"a": 1}}
    filters = [{"exact": {"type": "a"}}, asks, {"all": [{"not": asks}, {"any": [None, asks]}]}]
    assert filters_on_data(filters, "filters") == [
        "filters[1].data",
        "filters[2].all[0].not.data",
        "filters[2].all[1].any[1].data",
    ]


def test_it_is_known_which_attributes_decide() -> None:
    filters: list[dict[str, Any]] = [
        {"any": [{"exact": {"type": "a"}}, {"not": {"prefix": {"source": "/"}}}]},
        {"cesql": "EXISTS subject AND LENGTH(zone) > INT(level) AND id IN ('a', owner)"},
        {"data": {"order": {"exists": False}}},
    ]
    predicate = parse({}, filters)
    assert attributes_asked(predicate) == {"type", "source", "subject", "zone", "level", "id", "owner"}
    assert facts_asked(predicate) == {"kind:order", "kind:"}
