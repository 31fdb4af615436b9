"""`route()` with filters on data: against the reference evaluator, and at no cost where nobody asks for data."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from penstock.contract.routes import Route
from penstock.events.event import CloudEvent
from penstock.filters.evaluate import matches_event
from penstock.filters.parse import parse
from penstock.router.plan.matching import SESSION
from penstock.router.plan.route_index import index_routes
from penstock.router.plan.routing import route

RECORDS = "partition int, offset long, key binary, value binary, headers array<struct<key:string,value:binary>>"
BASE = {"specversion": "1.0", "id": "1", "source": "/a", "type": "order", "datacontenttype": "application/json"}


def trigger(uid: str, *filters: dict[str, Any], target: str = "t") -> Route:
    return Route(uid=uid, kind="Trigger", namespace="d", name=uid, target=target, filters=list(filters))


def record(offset: int, event: CloudEvent, target: str = "t") -> tuple[Any, ...]:
    names = {name: "content-type" if name == "datacontenttype" else f"ce_{name}" for name in event.attributes}
    headers = [(names[name], value.encode()) for name, value in event.attributes.items()]
    return 2, offset, b"key", event.data, [*headers, ("penstock_target", target.encode())]


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    for name, value in SESSION.items():
        spark.conf.set(name, value)
    return spark


def routed(session: SparkSession, records: list[tuple[Any, ...]], *routes: Route) -> DataFrame:
    return route(session.createDataFrame(records, RECORDS).coalesce(1), index_routes(routes), generation=9)


def found(row: Row, name: str) -> str | None:
    values = [bytes(header["value"]).decode() for header in row["headers"] if header["key"] == name]
    return values[-1] if values else None


def uids(row: Row) -> set[str]:
    return set(filter(None, (found(row, "penstock_routes") or "").split(",")))


def random_condition(chance: random.Random) -> Any:
    texts, numbers = ["a", "ab", "b", ""], [0, 1, 1.5, -2, 100]
    return chance.choice(
        [
            chance.choice([*texts, *numbers, True, False]),
            {chance.choice(["prefix", "suffix"]): chance.choice(texts)},
            {"gte": chance.choice(numbers), "lt": chance.choice(numbers)},
            {chance.choice(["gt", "lte"]): chance.choice(numbers)},
            {"in": chance.sample([*texts, *numbers, None, True], 3)},
            {"exists": chance.random() < 0.5},
        ]
    )


def random_filter(chance: random.Random, depth: int = 0) -> dict[str, Any]:
    kind = chance.choice(["data", "data", "exact", "cesql"] + ["all", "any", "not"] * (depth < 3))
    match kind:
        case "all" | "any":
            return {kind: [random_filter(chance, depth + 1) for _ in range(chance.randint(1, 3))]}
        case "not":
            return {kind: random_filter(chance, depth + 1)}
        case "exact":
            return {kind: {"type": chance.choice(["order", "other"])}}
        case "cesql":
            return {kind: chance.choice(["LENGTH(type) > 4", "type = 'order'"])}
        case _:
            keys = chance.sample(["x", "y", "x.z", r"a\.b"], chance.randint(1, 2))
            return {kind: {key: random_condition(chance) for key in keys}}


def random_data(chance: random.Random) -> bytes:
    values: list[Any] = [
        "a",
        "ab",
        "b",
        "",
        0,
        1,
        1.5,
        1.0,
        -2,
        100,
        99.5,
        True,
        False,
        None,
        [1],
        {"z": "ab"},
        {"z": 1},
    ]
    data = {key: chance.choice(values) for key in ("x", "y", "a.b") if chance.random() < 0.7}
    return chance.choice([b"{no json", b"\xff"]) if chance.random() < 0.1 else json.dumps(data).encode()


def test_the_query_matches_what_the_reference_matches(session: SparkSession) -> None:
    chance = random.Random(20261)
    routes = [trigger(f"r{number}", *(random_filter(chance) for _ in range(2))) for number in range(120)]
    kinds = ["application/json"] * 9 + ["text/plain"]
    events = [
        CloudEvent({**BASE, "type": chance.choice(["order", "else"]), "datacontenttype": chance.choice(kinds)}, data)
        for data in (random_data(chance) for _ in range(150))
    ]
    rows = routed(session, [record(number, event) for number, event in enumerate(events)], *routes).collect()
    answers = {int(found(row, "penstock_origin") or ""): uids(row) for row in rows}
    predicates = {each.uid: parse({}, each.filters) for each in routes}
    for number, event in enumerate(events):
        expected = {uid for uid, predicate in predicates.items() if matches_event(predicate, event)}
        assert answers.get(number, set()) == expected, event
    assert sum(map(len, answers.values())) > 200


def test_an_event_without_json_data_is_marked_and_keeps_its_data_only_where_somebody_gets_it(
    session: SparkSession,
) -> None:
    asks, others = trigger("asks", {"data": {"a": 1}}), trigger("others", {"exact": {"type": "wanted"}})
    elsewhere = trigger("elsewhere", {"exact": {"type": "x"}}, target="u")
    unread = CloudEvent(BASE, b"no json")
    records = [
        record(0, unread),
        record(1, CloudEvent({**BASE, "type": "wanted"}, b"no json")),
        record(2, CloudEvent(BASE, b'{"a": 1}')),
        record(3, CloudEvent(BASE, b'{"a": 2}')),
        record(4, unread, target="u"),
    ]
    rows = routed(session, records, asks, others, elsewhere).collect()
    told = [
        (found(row, "penstock_origin"), uids(row), row["value"], found(row, "penstock_data_unread")) for row in rows
    ]
    assert told == [
        ("0", set(), None, "1"),
        ("1", {"others"}, b"no json", "1"),
        ("2", {"asks"}, b'{"a": 1}', None),
    ]
    assert all(row["topic"] == "penstock.matched" for row in rows)


def test_where_nobody_asks_for_data_the_plan_has_nothing_of_it(session: SparkSession) -> None:
    plain = [trigger("a", {"exact": {"type": "a"}}), trigger("b", {"cesql": "LENGTH(type) > 3"})]
    records = [record(0, CloudEvent(BASE, b"{}"))]
    without = _plan(routed(session, records, *plain))
    assert not any(word in without.lower() for word in ("variant", "parsejson", "data_unread", "facts"))
    assert "parsejson" in _plan(routed(session, records, *plain, trigger("c", {"data": {"a": 1}}))).lower()


def _plan(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())
