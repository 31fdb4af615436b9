"""Backtests without Spark: which Triggers are tried, over which time, what is made of the counts, what is expected."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from penstock.backtest import report
from penstock.backtest.report import BacktestReport, EventCounts, SampleEvent, Tally, Window, results_of
from penstock.backtest.trials import Trial, trials_of
from penstock.cli.backtest import bar, rows_of
from penstock.contract.routes import Route, Target
from penstock.contract.snapshot import Snapshot
from penstock.runtime.errors import UserError
from penstock.settings import Settings

NOW = datetime(2026, 11, 17, 12, 30, tzinfo=UTC)
HOUR = datetime(2026, 11, 17, 11, tzinfo=UTC)
PRESENT = Route("u1", "Trigger", "default", "orders", "b1", attributes={"type": "order"}, start=(5, 6))
SNAPSHOT = Snapshot(
    version=1,
    targets={"b1": Target("b1", "Broker", "default", "shop"), "c1": Target("c1", "Channel", "default", "other")},
    routes={"u1": PRESENT, "u2": Route("u2", "Subscription", "default", "fresh", "c1")},
)


def trigger(name: str = "orders", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "eventing.knative.dev/v1",
        "kind": "Trigger",
        "metadata": {"name": name},
        "spec": {"broker": "shop", **spec},
    }


def tried(*documents: Any) -> tuple[Trial, ...]:
    return trials_of(documents, SNAPSHOT, Settings())


def test_a_trigger_is_tried_beside_the_one_of_its_name() -> None:
    filters = [{"data": {"total": {"gt": 1}}}]
    changed, new = tried({"kind": "Broker"}, None, trigger(filters=filters), trigger("fresh"))
    assert (changed.present, changed.candidate.filters, changed.broker) == (PRESENT, filters, "default/shop")
    assert (new.present, new.target) == (None, "b1")
    candidate, present = changed.routes(3)
    assert (candidate.uid, candidate.start, present.uid, present.start) == ("c3", (), "p3", (5, 6))
    assert [route.uid for route in new.routes(0)] == ["c0"]


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"kind": "Broker"}, "The file contains no Trigger"),
        (trigger(broker="nowhere"), "Broker default/nowhere of Trigger default/orders does not exist"),
        (
            trigger(filters=[{"cesql": "type ="}]),
            "The API would reject the Trigger: invalid value: type =: spec.filters[0].cesql",
        ),
        (trigger(filters=[{"data": {"a": None}}]), "null is lost when the object is applied again"),
        (trigger(filters="all"), "The API would reject the Trigger"),
        ({"kind": "Trigger"}, "The API would reject the Trigger"),
        ({"kind": "Trigger", "metadata": [], "spec": 3}, "The API would reject the Trigger"),
        (trigger(""), "A Trigger in the file has no name"),
    ],
)
def test_what_cannot_be_tried_is_told(document: Any, text: str) -> None:
    with pytest.raises(UserError) as problem:
        tried(document)
    assert text in problem.value.what
    assert problem.value.exit_code == 2


def tally(fate: str, count: int, hour: datetime = HOUR, partition: int = 0, offsets: tuple[int, int] = (1, 9)) -> Tally:
    return Tally(hour, "b1", fate, partition, count, *offsets)


TALLIES = [
    tally("", 100),
    tally("", 50, NOW, partition=1),
    tally("c0", 7, offsets=(3, 8)),
    tally("c0", 1, NOW, partition=1, offsets=(4, 4)),
    tally("c0=", 20),
    tally("p0=", 20),
    tally("p0", 2),
    tally("c1", 5),
]


def test_counts_are_put_together_by_hour() -> None:
    changed, new = results_of(tried(trigger(), trigger("fresh")), TALLIES, samples=2)
    assert changed.hours == {HOUR: EventCounts(100, 7, 2, 20), NOW: EventCounts(50, 1, 0, 0)}
    assert (changed.total.matched, changed.total.present, changed.total.events) == (28, 22, 150)
    assert changed.added == ((1, 4), (0, 8))
    assert changed.removed == ((0, 9), (0, 1))
    assert (new.total.matched, new.total.added, new.total.present) == (5, 5, 0)


def test_the_report_is_json() -> None:
    (result,) = results_of(tried(trigger()), TALLIES, samples=1)
    sample = SampleEvent("e4", "order", "/s", None, NOW, 1, 4)
    result = type(result)(result.trial, result.hours, result.added, result.removed, {(1, 4): sample})
    data = json.loads(json.dumps(BacktestReport((result,), Window(HOUR, NOW), 150, 0.5).as_data()))
    (told,) = data["triggers"]
    assert {name: told[name] for name in report.NAMES} == {
        "events": 150,
        "matched": 28,
        "present": 22,
        "added": 8,
        "removed": 2,
    }
    assert told["exists"]
    assert told["hours"][0] == {
        "hour": "2026-11-17T11:00:00Z", "events": 100, "matched": 27, "present": 22, "added": 7, "removed": 2
    }  # fmt: skip
    assert [each["id"] for each in told["samples"]["added"]] == ["e4"]
    assert told["samples"]["removed"] == []


def test_expectations_hold_for_every_trigger() -> None:
    results = results_of(tried(trigger(), trigger("fresh")), TALLIES, samples=0)
    expected = report.read(["added>=5, removed<=2", "matched!=0"])
    assert report.disappointments(results, expected) == []
    assert report.disappointments(results, report.read(["added=5"])) == [
        "Trigger default/orders: expected added=5, found 8"
    ]


@pytest.mark.parametrize("text", ["added", "added=x", "lost=0", "added==0", ""])
def test_an_expectation_that_is_none_is_told(text: str) -> None:
    with pytest.raises(UserError, match="Invalid --expect"):
        report.read([text])


def test_bars_are_in_proportion_and_never_hide_what_is_there() -> None:
    assert [bar(value, 1000, 10) for value in (0, 1, 50, 500, 1000)] == ["", "▏", "▌", "█████", "██████████"]


def test_a_long_time_is_shown_by_day() -> None:
    hours = {NOW - timedelta(hours=hour): EventCounts(events=1) for hour in range(30)}
    assert rows_of(hours, 48)[0] == ("11-17 12:30", EventCounts(events=1))
    assert rows_of(hours, 10) == [("2026-11-17", EventCounts(events=13)), ("2026-11-16", EventCounts(events=17))]
