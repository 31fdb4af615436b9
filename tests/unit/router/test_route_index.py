"""Filing: every route is found by every event it matches, and by few others."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.contract.routes import Route
from penstock.filters.evaluate import matches
from penstock.filters.normal import Atom
from penstock.filters.parse import parse, problems_of
from penstock.filters.validate import DIALECTS, MAX_NESTING
from penstock.filters.walk import MAX_TERMS
from penstock.router.plan.route_index import MAX_FILED, OPS, Candidate, RouteTable, index_routes


def route(uid: str, filters: list[dict[str, Any]] | None = None, target: str = "t", **attributes: str) -> Route:
    return Route(
        uid=uid, kind="Trigger", namespace="d", name=uid, target=target, attributes=attributes, filters=filters or []
    )


def places(table: RouteTable) -> set[tuple[str, str, str]]:
    return {
        (name, bucket.key or "", found.uid)
        for name, kept in table.filed.items()
        for bucket in kept
        for found in bucket.candidates
    }


def atom_holds(atom: Atom, event: dict[str, str]) -> bool:
    value = event.get(atom.attribute)
    holds = (
        value is not None
        and {
            "exact": value == atom.value,
            "present": value != "",
            "prefix": value.startswith(atom.value),
            "suffix": value.endswith(atom.value),
        }[atom.op]
    )
    return holds != atom.negated


def look_up(table: RouteTable, target: str, event: dict[str, str]) -> list[str]:
    """What the query does with the table, in plain Python."""
    candidates: list[Candidate] = []
    for name, buckets in table.filed.items():
        for bucket in buckets:
            if bucket.target == target and event.get(name) == bucket.key:
                candidates += bucket.candidates
    for bucket in table.unfiled:
        if bucket.target == target:
            candidates += bucket.candidates
    return [
        found.uid
        for found in candidates
        if all(any(atom_holds(atom, event) for atom in clause) for clause in found.clauses)
        and (found.predicate is None or matches(table.predicates[found.predicate], event))
    ]


def test_a_route_with_one_exact_atom_is_filed_under_it_and_nothing_remains() -> None:
    table = index_routes([route("a", type="x")])
    assert places(table) == {("type", "x", "a")}
    assert table.filed["type"][0].candidates == (Candidate("a", ()),)
    assert table.unfiled == ()


def test_a_route_is_filed_where_it_has_the_least_company() -> None:
    routes = [route(f"r{number}", type="common", source=f"/{number}") for number in range(5)]
    assert places(index_routes(routes)) == {("source", f"/{number}", f"r{number}") for number in range(5)}


def test_type_is_preferred_where_the_choice_is_equal() -> None:
    assert places(index_routes([route("a", subject="s", type="x", zone="z")])) == {("type", "x", "a")}


def test_a_choice_of_exact_values_is_filed_under_each() -> None:
    either = [{"any": [{"exact": {"type": "x"}}, {"exact": {"type": "y"}}]}]
    assert places(index_routes([route("a", either)])) == {("type", "x", "a"), ("type", "y", "a")}


def test_routes_of_one_value_share_a_bucket_so_that_the_join_stays_one_to_one() -> None:
    table = index_routes([route("a", type="x"), route("b", type="x"), route("c", type="x", target="other")])
    keys = [(bucket.target, bucket.key) for bucket in table.filed["type"]]
    assert sorted(keys) == [("other", "x"), ("t", "x")]


def test_a_route_without_an_exact_atom_is_found_by_its_target_alone() -> None:
    table = index_routes([route("all"), route("pre", [{"prefix": {"type": "x"}}])])
    assert table.filed == {}
    assert [found.uid for found in table.unfiled[0].candidates] == ["all", "pre"]


def test_cesql_is_an_expression_shared_by_routes_that_say_the_same() -> None:
    long = [{"cesql": "LENGTH(type) > 3"}]
    table = index_routes([route("a", long), route("b", long), route("c", [{"cesql": "LENGTH(type) > 4"}])])
    assert len(table.predicates) == 2
    assert [found.predicate for found in table.unfiled[0].candidates] == [0, 0, 1]


def test_cesql_beside_an_exact_atom_is_evaluated_for_events_with_that_value_only() -> None:
    table = index_routes([route("a", [{"exact": {"type": "x"}}, {"cesql": "LENGTH(id) > 3"}])])
    assert places(table) == {("type", "x", "a")}
    assert table.unfiled == ()


def nested(levels: int) -> dict[str, Any]:
    element: dict[str, Any] = {"exact": {"type": "x"}}
    for level in range(levels - 1):
        element = {"not": element} if level % 2 else {"all": [element]}
    return element


@pytest.mark.parametrize(
    ("filters", "reason"),
    [
        ([{"cesql": "this is ( no expression"}], "invalid value: this is ( no expression: filters[0].cesql"),
        ([{"not": {"cesql": "this is ( no expression"}}], "invalid value: this is ( no expression"),
        ([{"exact": {"Type": "x"}}], 'invalid key name "Type": filters[0].exact[Type]'),
        ([nested(MAX_NESTING + 1)], f"filters are nested deeper than {MAX_NESTING} levels"),
        ([{"not": nested(MAX_NESTING)}], f"filters are nested deeper than {MAX_NESTING} levels"),
    ],
)
def test_a_route_that_cannot_be_routed_by_is_refused_and_says_why(filters: list[dict[str, Any]], reason: str) -> None:
    table = index_routes([route("a", filters)])
    assert table.refused["a"].startswith(f"its filter cannot be used: {reason}")
    assert table == RouteTable(refused=table.refused)


def test_a_filter_as_deep_as_admission_lets_it_be_is_routed_by() -> None:
    table = index_routes([route("a", [nested(MAX_NESTING)])])
    assert table.refused == {}
    assert look_up(table, "t", {"type": "x"}) == (
        ["a"] if matches(parse({}, [nested(MAX_NESTING)]), {"type": "x"}) else []
    )


def test_a_filter_that_is_meant_to_match_nothing_is_none_the_worse() -> None:
    table = index_routes([route("a", [{"cesql": "false"}])])
    assert table.refused == {}
    assert look_up(table, "t", {"type": "x"}) == []


def test_the_number_of_attributes_that_events_are_looked_up_under_is_bounded() -> None:
    table = index_routes([route(f"r{number}", None, **{f"x{number}": "v"}) for number in range(50)])
    assert len(table.filed) == MAX_FILED
    assert sum(len(bucket.candidates) for bucket in table.unfiled) == 50 - MAX_FILED


def test_a_route_that_asks_for_data_is_filed_under_what_it_asks_for() -> None:
    routes = [route(f"r{number}", [{"data": {"order.id": f"o{number}"}}]) for number in range(3)]
    table = index_routes([*routes, route("plain", target="other", type="x")])
    assert places(table) == {("string:order.id", f"o{number}", f"r{number}") for number in range(3)} | {
        ("type", "x", "plain")
    }
    assert (table.facts, table.targets_on_data, table.compares_numbers) == (("string:order.id",), ("t",), False)


def test_what_needs_no_check_is_told_apart() -> None:
    later = Route("later", "Trigger", "d", "later", "t", attributes={"type": "x"}, start=(0, 5))
    at_once = Route("at-once", "Trigger", "d", "at-once", "t", attributes={"type": "x"}, start=(0, 0))
    table = index_routes([at_once, later, route("checked", type="x", subject="s")])
    (bucket,) = table.filed["type"]
    assert (table.has_sure, table.has_unsure) == (True, True)
    assert bucket.as_data()["sure"] == ["at-once"]
    assert [each["uid"] for each in bucket.as_data()["routes"]] == ["later"]
    assert (index_routes([at_once]).has_unsure, index_routes([later]).has_sure) == (False, False)


def test_a_comparison_of_numbers_travels_with_its_number() -> None:
    table = index_routes([route("r", [{"data": {"total": {"gte": 100}}}])])
    assert table.compares_numbers
    (found,) = table.unfiled[0].candidates
    atom = {"op": OPS.index("gte"), "header": "number:total", "value": "100.0", "negated": False, "number": 100.0}
    assert found.as_data()["clauses"] == [[atom]]


def test_without_filters_on_data_nothing_is_asked_of_it() -> None:
    table = index_routes([route("a", type="x"), route("b", [{"cesql": "LENGTH(type) > 3"}])])
    assert (table.facts, table.targets_on_data, table.compares_numbers) == ((), (), False)


VALUES = st.sampled_from(["a", "ab", "b", "abc"])
NAMES = st.sampled_from(["type", "source", "subject", "zone"])
ATOMS = st.builds(
    lambda dialect, name, value: {dialect: {name: value}}, st.sampled_from(["exact", "prefix", "suffix"]), NAMES, VALUES
)
CESQL = st.sampled_from(["LENGTH(type) > 1", "source LIKE 'a%' AND type = 'ab'", "EXISTS zone", "type IN ('a', 'b')"])
FILTERS = st.recursive(
    ATOMS | st.builds(lambda text: {"cesql": text}, CESQL),
    lambda inner: (
        st.builds(lambda kind, parts: {kind: parts}, st.sampled_from(["all", "any"]), st.lists(inner, max_size=3))
        | st.builds(lambda part: {"not": part}, inner)
    ),
    max_leaves=6,
)
EVENTS = st.dictionaries(NAMES, VALUES).map(
    lambda found: {"specversion": "1.0", "id": "1", "source": "a", "type": "a", **found}
)


@given(st.lists(st.lists(FILTERS, max_size=2), max_size=6), EVENTS)
def test_filed_routes_match_what_their_filters_match(every: list[list[dict[str, Any]]], event: dict[str, str]) -> None:
    routes = [route(f"r{number}", filters) for number, filters in enumerate(every)]
    expected = sorted(found.uid for found in routes if matches(parse({}, found.filters), event))
    assert sorted(look_up(index_routes(routes), "t", event)) == expected


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | VALUES | CESQL | st.just("") | st.just("no ( expression"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*DIALECTS, "type", "source", "Bad", "unknown"]), inner, max_size=2)
    ),
    max_leaves=10,
)


@given(st.lists(FILTERS | ANYTHING, max_size=3), st.dictionaries(NAMES | st.just("Bad"), VALUES, max_size=2), EVENTS)
def test_what_admission_accepts_is_routed_as_it_reads_and_the_rest_is_refused(
    filters: list[Any], attributes: dict[str, str], event: dict[str, str]
) -> None:
    found = route("r", filters, **attributes)
    table = index_routes([found])
    if problems_of(attributes, filters):
        assert list(table.refused) == ["r"]
        assert look_up(table, "t", event) == []
    else:
        assert table.refused == {}
        assert look_up(table, "t", event) == (["r"] if matches(parse(attributes, filters), event) else [])


def test_an_enormous_expression_is_refused_and_the_others_are_filed() -> None:
    alternatives = [{"prefix": {f"a{number}": "x"}} for number in range(MAX_TERMS)]
    table = index_routes([route("huge", [{"any": alternatives}]), route("plain", type="a")])
    size = f"{MAX_TERMS + 1} terms, at most {MAX_TERMS} are possible"
    assert table.refused == {"huge": f"its filter cannot be used: too large: {size}: filters"}
    assert table.predicates == ()
    assert places(table) == {("type", "a", "plain")}


def test_a_table_can_start_its_routes_elsewhere() -> None:
    filed, unfiled = route("filed", type="a"), route("unfiled")
    table = index_routes([filed, unfiled])
    moved = table.starting({"filed": (5, 6)})
    assert [found.start for bucket in moved.filed["type"] for found in bucket.candidates] == [(5, 6)]
    assert (moved.unfiled, moved.predicates, moved.refused) == (table.unfiled, table.predicates, table.refused)


def test_what_an_event_can_match_at_most_is_counted_by_target() -> None:
    either = [{"any": [{"exact": {"type": "x"}}, {"exact": {"type": "y"}}]}]
    routes = [route("a", either), route("bb", type="x"), route("every"), route("elsewhere", target="other")]
    assert index_routes(routes).most_matches() == (3, len("elsewhere"))
    assert index_routes([]).most_matches() == (0, 0)
