"""From raw filters to predicates: Knative's meaning of what counts and what does not, and the checks of admission."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.filters.evaluate import matches
from penstock.filters.parse import MAX_NESTING, parse, validate, validate_attributes
from penstock.filters.predicate import NOTHING, All, AnyOf, Cesql, Everything, Exact, Not, Prefix, Present, Suffix

EVENT = {"specversion": "1.0", "id": "1", "source": "/shop", "type": "order.created", "empty": ""}


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([], Everything()),
        ([{}], Everything()),
        ([{"exact": {}}, {"all": []}], Everything()),
        ([{"exact": {"type": "a"}}], Exact("type", "a")),
        ([{"prefix": {"type": "a", "source": "b"}}], All((Prefix("type", "a"), Prefix("source", "b")))),
        ([{"suffix": {"type": "a"}}, {}], Suffix("type", "a")),
        ([{"any": [{"exact": {"a": "1"}}, {"exact": {"a": "2"}}]}], AnyOf((Exact("a", "1"), Exact("a", "2")))),
        ([{"not": {"exact": {"a": "1"}}}], Not(Exact("a", "1"))),
    ],
)
def test_dialects(filters: list[dict[str, Any]], expected: object) -> None:
    assert parse({}, filters) == expected


@pytest.mark.parametrize(
    "element",
    [
        {"not": {}},
        {"not": {"not": {}}},
        {"not": {"all": [{}]}},
        {"any": [{"not": {}}]},
        {"all": [{}, {"any": []}]},
        {"exact": {"type": ""}},
        {"prefix": {"": "x"}},
        {"suffix": ["x"]},
        {"cesql": 7},
        {"cesql": ""},
    ],
)
def test_what_does_not_count_passes_everything(element: dict[str, Any]) -> None:
    assert parse({}, [element]) == Everything()
    assert matches(parse({}, [{"not": element}]), EVENT)


def test_filters_replace_the_legacy_attributes() -> None:
    assert parse({"type": "a"}, [{"exact": {"type": "b"}}]) == Exact("type", "b")
    assert parse({"type": "a"}, [{}]) == Everything()
    assert parse({"type": "a"}, []) == Exact("type", "a")


def test_an_empty_legacy_value_asks_for_any_value_that_is_not_empty() -> None:
    assert parse({"type": ""}, []) == Present("type")
    assert matches(parse({"type": ""}, []), EVENT)
    assert not matches(parse({"empty": ""}, []), EVENT)
    assert not matches(parse({"missing": ""}, []), EVENT)


@pytest.mark.parametrize("event_name", ["schemaurl", "dataschema"])
@pytest.mark.parametrize("filter_name", ["schemaurl", "dataschema"])
def test_the_schema_has_one_name_in_each_version(event_name: str, filter_name: str) -> None:
    assert matches(parse({filter_name: "s"}, []), {event_name: "s"})
    assert not matches(parse({filter_name: "s"}, []), {event_name: "t"})


def test_the_negation_of_a_condition_on_a_missing_attribute_holds() -> None:
    assert matches(parse({}, [{"not": {"exact": {"missing": "x"}}}]), EVENT)
    assert matches(parse({}, [{"not": {"cesql": "missing = 'x'"}}]), EVENT)


def test_an_expression_that_does_not_parse_matches_nothing() -> None:
    assert parse({}, [{"cesql": "type ="}]) == NOTHING
    assert isinstance(parse({}, [{"cesql": "true"}]), Cesql)


def test_nesting_beyond_the_limit_is_refused_and_matches_nothing() -> None:
    element: dict[str, Any] = {"exact": {"a": "1"}}
    for _ in range(MAX_NESTING - 1):
        element = {"all": [element]}
    assert validate([element]) == []
    assert parse({}, [element]) == Exact("a", "1")
    for _ in range(2000):
        element = {"any": [element]}
    assert "levels" in str(validate([element])[0])
    assert not matches(parse({}, [{"all": [element]}, {"exact": {"a": "1"}}]), {"a": "1"})


def test_admission_speaks_as_knative_does() -> None:
    problems = validate([{"exact": {"type": "a"}, "prefix": {"Type": "b"}}, {"not": {"cesql": "type LIKE 1"}}])
    assert list(map(str, problems)) == [
        "multiple dialects found, filters can have only one dialect set: spec.filters[0]",
        'invalid key name "Type": spec.filters[0].prefix[Type]\n'
        "Attribute name must start with a letter and can only contain lowercase alphanumeric",
        "invalid value: type LIKE 1: spec.filters[1].not.cesql\n"
        "unexpected '1' at column 11; expected a string in quotes",
    ]
    assert str(validate_attributes({"a-b": "x"})[0]).startswith(
        'invalid key name "a-b": spec.filter.attributes[a-b]\nAttribute name must'
    )


def test_admission_refuses_values_that_would_be_skipped() -> None:
    (problem,) = validate([{"all": [{"suffix": {"type": ""}}]}])
    assert problem.path == "spec.filters[0].all[0].suffix[type]"
    assert "non-empty" in problem.details


def test_admission_refuses_text_that_no_event_can_hold() -> None:
    assert validate([{"exact": {"type": "\ud800"}}])
    assert validate([{"cesql": "type = '\ud800'"}])
    assert parse({}, [{"exact": {"type": "\ud800"}}]) == NOTHING


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["exact", "prefix", "suffix", "all", "any", "not", "cesql"]) | st.text(max_size=3),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)


@given(st.lists(JSON, max_size=4))
def test_parsing_and_checking_never_raise(filters: list[Any]) -> None:
    predicate = parse({}, filters)
    assert matches(predicate, EVENT) in (True, False)
    for problem in validate(filters):
        assert problem.path.startswith("spec.filters[")


@given(st.text(alphabet="ab1' \"\\()=<>!+-*/%,_LIKENOTANDORXEISFU\n", max_size=30))
def test_no_expression_makes_the_parser_fail(text: str) -> None:
    parse({}, [{"cesql": text}])
