"""`route()` over static records: against the reference evaluator, and with records that are no good events."""

from __future__ import annotations

import random
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from penstock.contract.routes import Route
from penstock.filters.cesql.parser import MAX_DEPTH
from penstock.filters.evaluate import matches
from penstock.filters.parse import parse, problems_of
from penstock.filters.validate import MAX_NESTING
from penstock.router.plan import routing
from penstock.router.plan.matching import SESSION
from penstock.router.plan.route_index import index_routes
from penstock.router.plan.routing import route

RECORDS = "partition int, offset long, key binary, value binary, headers array<struct<key:string,value:binary>>"
BASE = {"specversion": "1.0", "id": "1", "source": "/a", "type": "order"}

Headers = list[tuple[str, bytes | None]] | None


def headers_of(attributes: dict[str, str], target: str = "t") -> list[tuple[str, bytes | None]]:
    return [
        *((f"ce_{name}", value.encode()) for name, value in attributes.items()),
        ("penstock_target", target.encode()),
    ]


def trigger(
    uid: str, filters: list[dict[str, Any]] | None = None, start: tuple[int, ...] = (), **attributes: str
) -> Route:
    return Route(
        uid=uid,
        kind="Trigger",
        namespace="d",
        name=uid,
        target="t",
        attributes=attributes,
        filters=filters or [],
        start=start,
    )


def run(spark: SparkSession, records: list[Headers], *routes: Route, partition: int = 2) -> list[Row]:
    """Routes records whose offsets are their places in the list; what comes out, in that order."""
    for name, value in SESSION.items():
        spark.conf.set(name, value)
    rows = [(partition, offset, b"key", b"data", found) for offset, found in enumerate(records)]
    routed = route(spark.createDataFrame(rows, RECORDS).coalesce(1), index_routes(routes), generation=9)
    return sorted(routed.collect(), key=lambda row: int(header(row, "penstock_origin")))


def header(row: Row, name: str) -> str:
    return next(bytes(found["value"]).decode() for found in reversed(row["headers"]) if found["key"] == name)


def uids(row: Row) -> set[str]:
    return set(header(row, "penstock_routes").split(","))


def test_a_matched_event_keeps_everything_and_says_where_it_came_from(spark: SparkSession) -> None:
    sent = [*headers_of(BASE), ("penstock_http_x-id", b"7")]
    (row,) = run(spark, [sent], trigger("a", type="order"), trigger("b", source="/a"), trigger("c", type="other"))
    assert (row["topic"], row["partition"], bytes(row["key"]), bytes(row["value"])) == (
        "penstock.matched",
        2,
        b"key",
        b"data",
    )
    assert [(found["key"], bytes(found["value"])) for found in row["headers"]][: len(sent)] == sent
    assert uids(row) == {"a", "b"}
    assert (header(row, "penstock_origin"), header(row, "penstock_generation")) == ("0", "9")


def test_an_event_without_a_match_leaves_no_trace(spark: SparkSession) -> None:
    other_target = headers_of(BASE, target="other")
    assert run(spark, [headers_of({**BASE, "type": "other"}), other_target], trigger("a", type="order")) == []


def test_nothing_matches_where_there_are_no_routes(spark: SparkSession) -> None:
    assert run(spark, [headers_of(BASE)]) == []


def test_a_route_gets_nothing_older_than_its_start(spark: SparkSession) -> None:
    late, other = trigger("late", start=(0, 0, 2), type="order"), trigger("early", start=(9, 9, 0), type="order")
    rows = run(spark, [headers_of(BASE)] * 4, late, other)
    assert [uids(row) for row in rows] == [{"early"}, {"early"}, {"late", "early"}, {"late", "early"}]


def test_a_partition_that_a_start_does_not_name_counts_from_the_beginning(spark: SparkSession) -> None:
    (row,) = run(spark, [headers_of(BASE)], trigger("a", start=(5,), type="order"))
    assert uids(row) == {"a"}


def test_markers_pass_without_routes(spark: SparkSession) -> None:
    (row,) = run(spark, [[("penstock_marker", b"1:2:3")]], trigger("everything"))
    assert row["topic"] == "penstock.matched"
    assert header(row, "penstock_routes") == ""
    assert header(row, "penstock_marker") == "1:2:3"


def test_what_is_no_event_is_kept_apart_and_the_next_event_goes_its_way(spark: SparkSession) -> None:
    strange: list[Headers] = [
        None,
        [],
        [("ce_id", b"1")],
        [("penstock_target", b"t")],
        [("penstock_target", b"t"), ("ce_id", b"1"), ("ce_type", b"order"), ("ce_source", b"/")],
        [("ce_id", b"1"), ("ce_type", b"order"), ("ce_source", b"/"), ("ce_specversion", b"1.0")],
    ]
    *aside, good = run(spark, [*strange, headers_of(BASE)], trigger("everything"))
    assert [(row["topic"], bytes(row["value"])) for row in aside] == [("penstock.unreadable", b"data")] * len(strange)
    assert (good["topic"], uids(good)) == ("penstock.matched", {"everything"})


def test_odd_headers_harm_nothing(spark: SparkSession) -> None:
    good = headers_of(BASE)
    records: list[Headers] = [
        [*good, ("ce_ext", b"\xff\xfe\x00")],
        [*good, ("ce_ext", b"one"), ("ce_ext", b"two")],
        [*good, ("ce_ext", None)],
        [*good, ("", b""), ("ce_", b"x"), ("weird name", b"\x00")],
        [*good, ("ce_ext", b"9" * 400), ("ce_number", b"2147483648")],
    ]
    odd = "ext = 'two' OR INT(ext) > 5 OR INT(number) > 1 OR 1 / LENGTH(ext) = 1"
    rows = run(spark, records, trigger("everything"), trigger("two", ext="two"), trigger("sql", [{"cesql": odd}]))
    assert len(rows) == len(records)
    assert all("everything" in uids(row) for row in rows)
    assert ["two" in uids(row) for row in rows] == [False, True, False, False, False]


def test_the_deepest_filter_that_is_accepted_is_routed_by(spark: SparkSession) -> None:
    deep = "subject"
    for _ in range(MAX_DEPTH - 2):
        deep = f"RIGHT({deep}, 9)"
    element: dict[str, Any] = {"cesql": f"{deep} = 'order'"}
    for level in range(MAX_NESTING - 1):
        either = {"any": [{"suffix": {f"x{level}": "y"}}, element]}
        element = (either, {"all": [element, {"cesql": "LENGTH(type) > 1"}]}, {"not": element})[level % 3]
    assert problems_of({}, [element]) == ()
    events = [{**BASE, "subject": subject} for subject in ("order", "x")]
    rows = run(spark, [headers_of(event) for event in events], trigger("deep", [element]))
    expected = [matches(parse({}, [element]), event) for event in events]
    assert [number in {int(header(row, "penstock_origin")) for row in rows} for number in range(2)] == expected
    assert len(set(expected)) == 2


def test_routes_that_do_not_fit_into_one_record_take_several(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routing, "ROUTES_BYTES", 3 * len("r0,"))
    routes = [trigger(f"r{number}", type="order") for number in range(7)]
    few = [trigger(f"f{number}", type="few") for number in range(3)]
    records: list[Headers] = [
        headers_of(BASE),
        [("penstock_marker", b"1:2:3")],
        headers_of({**BASE, "type": "few"}),
        headers_of({**BASE, "type": "none"}),
        headers_of(BASE),
    ]
    rows = run(spark, records, *routes, *few)
    assert [int(header(row, "penstock_origin")) for row in rows] == [0, 0, 0, 1, 2, 4, 4, 4]
    left = [{found["key"]: found["value"] for found in row["headers"]}.get("penstock_parts_left") for row in rows]
    assert [found and bytes(found) for found in left] == [b"2", b"1", None, None, None, b"2", b"1", None]
    for begin in (0, 5):
        named = [uid for row in rows[begin : begin + 3] for uid in header(row, "penstock_routes").split(",")]
        assert sorted(named) == [route.uid for route in routes]
    assert (uids(rows[3]), uids(rows[4])) == ({""}, {"f0", "f1", "f2"})
    assert all(bytes(row["value"]) == b"data" for row in rows)


def random_filter(chance: random.Random, depth: int = 0) -> dict[str, Any]:
    kind = chance.choice(["exact", "prefix", "suffix", "cesql"] + ["all", "any", "not"] * (depth < 3))
    names, values = ["type", "source", "subject", "ext"], ["a", "b", "ab", "ba", "order", "/a"]
    match kind:
        case "all" | "any":
            return {kind: [random_filter(chance, depth + 1) for _ in range(chance.randint(1, 3))]}
        case "not":
            return {kind: random_filter(chance, depth + 1)}
        case "cesql":
            name, value = chance.choice(names), chance.choice(values)
            forms = [
                f"{name} = '{value}'",
                f"{name} LIKE '%{value}_'",
                f"LENGTH({name}) > {chance.randint(0, 4)}",
                f"NOT ({name} = '{value}') AND EXISTS ext",
                f"{name} IN ('{value}', 'b') OR UPPER(type) = 'AB'",
            ]
            return {kind: chance.choice(forms)}
        case _:
            return {kind: {chance.choice(names): chance.choice(values) for _ in range(chance.randint(1, 2))}}


def test_the_query_matches_what_the_reference_matches(spark: SparkSession) -> None:
    chance = random.Random(20260)
    routes = [
        trigger(f"r{number}", [random_filter(chance) for _ in range(chance.randint(1, 2))]) for number in range(120)
    ]
    values = ["a", "b", "ab", "ba", "order", "/a", "abb"]
    events = [
        {
            **BASE,
            **{name: chance.choice(values) for name in ("type", "source", "subject", "ext") if chance.random() < 0.7},
        }
        for _ in range(60)
    ]
    rows = run(spark, [headers_of(event) for event in events], *routes)
    found = {int(header(row, "penstock_origin")): uids(row) for row in rows}
    predicates = {each.uid: parse(each.attributes, each.filters) for each in routes}
    for number, event in enumerate(events):
        expected = {uid for uid, predicate in predicates.items() if matches(predicate, event)}
        assert found.get(number, set()) == expected, event
    assert sum(map(len, found.values())) > 100
