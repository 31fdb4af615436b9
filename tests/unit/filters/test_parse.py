"""From raw filters to predicates: Knative's meaning of what counts and what does not, and the checks of admission."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.filters.evaluate import matches
from penstock.filters.parse import InvalidFilter, parse, problems_of
from penstock.filters.predicate import All, AnyOf, Cesql, Everything, Exact, Not, Prefix, Present, Suffix
from penstock.filters.validate import MAX_NESTING
from penstock.filters.walk import MAX_TERMS, count_terms

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
        {"suffix": {"type": "", "source": "x"}},
        {"cesql": ""},
        {"all": None},
        {"any": [None]},
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


def test_an_expression_that_does_not_parse_is_refused_wherever_it_stands() -> None:
    for element in ({"cesql": "type ="}, {"not": {"cesql": "type ="}}, {"any": [{}, {"cesql": "type ="}]}):
        with pytest.raises(InvalidFilter, match="the expression ends too early"):
            parse({}, [element])
    assert isinstance(parse({}, [{"cesql": "true"}]), Cesql)


def nested(levels: int, kind: str) -> dict[str, Any]:
    element: dict[str, Any] = {"exact": {"a": "1"}}
    for _ in range(levels - 1):
        element = {"not": element} if kind == "not" else {kind: [element]}
    return element


@pytest.mark.parametrize("kind", ["all", "any", "not"])
def test_nesting_beyond_the_limit_is_refused(kind: str) -> None:
    assert matches(parse({}, [nested(MAX_NESTING, kind)]), {"a": "1"}) == (kind != "not" or MAX_NESTING % 2 == 1)
    for levels in (MAX_NESTING + 1, 3000):
        with pytest.raises(InvalidFilter, match=f"nested deeper than {MAX_NESTING} levels"):
            parse({}, [nested(levels, kind)])


def test_problems_are_told_as_knative_tells_them() -> None:
    problems = problems_of(
        {"a-b": "x"}, [{"exact": {"type": "a"}, "prefix": {"Type": "b"}}, {"not": {"cesql": "type LIKE 1"}}]
    )
    rule = "Attribute name must start with a letter and can only contain lowercase alphanumeric"
    assert list(map(str, problems)) == [
        f'invalid key name "a-b": filter.attributes[a-b]\n{rule}',
        "multiple dialects found, filters can have only one dialect set: filters[0]",
        f'invalid key name "Type": filters[0].prefix[Type]\n{rule}',
        "invalid value: type LIKE 1: filters[1].not.cesql\nunexpected '1' at column 11; expected a string in quotes",
    ]


@pytest.mark.parametrize(
    "element",
    [
        {"exact": {"type": "\ud800"}},
        {"cesql": "type = '\ud800'"},
        {"prefix": {"": "x"}},
        {"suffix": ["x"]},
        {"exact": {"type": 7}},
        {"cesql": 7},
        {"all": {"exact": {"type": "a"}}},
        {"all": "exact"},
        {"not": [{"exact": {"type": "a"}}]},
        {"regex": {"type": "a"}},
        "exact",
    ],
)
def test_what_no_event_can_be_compared_with_is_refused(element: Any) -> None:
    assert problems_of({}, [element])


def test_an_enormous_filter_is_refused_unless_it_travels_as_data() -> None:
    names = [{"prefix": {f"a{number}": "x"}} for number in range(MAX_TERMS)]
    (problem,) = problems_of({}, [{"any": names}])
    assert problem.message == f"too large: {MAX_TERMS + 1} terms, at most {MAX_TERMS} are possible"


def test_terms_are_counted_through_filters_and_expressions() -> None:
    assert count_terms(parse({}, [{"exact": {"type": "a"}}])) == 1
    assert count_terms(parse({}, [{"not": {"any": [{"prefix": {"a": "b", "c": "d"}}, {"suffix": {"e": "f"}}]}}])) == 6
    # The filter, the comparison, the function, its argument, the number.
    assert count_terms(parse({}, [{"cesql": "LENGTH(type) > 3"}])) == 5


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
    problems = problems_of({}, filters)
    if not problems:
        assert matches(parse({}, filters), EVENT) in (True, False)
    for problem in problems:
        assert problem.path.startswith("filters[")


@given(st.text(alphabet="ab1' \"\\()=<>!+-*/%,_LIKENOTANDORXEISFU\n", max_size=30))
def test_no_expression_makes_the_parser_fail(text: str) -> None:
    assert all(problem.path.startswith("filters[0]") for problem in problems_of({}, [{"cesql": text}]))
