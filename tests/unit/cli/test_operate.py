"""The commands that send, watch and explain: what they make of their arguments and of what they see."""

from __future__ import annotations

import io
import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from typer.testing import CliRunner

from penstock.cli import app, lag, top
from penstock.cli.event_input import event_of, numbered
from penstock.cli.event_sender import SendingOutcome
from penstock.cli.event_text import attempt_line, data_text, event_line, event_object
from penstock.cli.filtering import filters_of, passes, predicate_of, reasons
from penstock.cli.live_view import ViewSelection
from penstock.cli.manifests import document, kinds_lines, read_manifests, table_lines
from penstock.cli.names import split
from penstock.cli.watching import Journey, matches_unready
from penstock.contract import attempts, records
from penstock.contract.attempts import AttemptRecord
from penstock.contract.records import record_of
from penstock.events.event import CloudEvent
from penstock.kafka.live import SampleLimit
from penstock.kafka.ranges import LogRecord
from penstock.operations.cluster_api import Resource
from penstock.operations.route_rates import SORTS, RouteName, counters_of, quantile, rows_of
from penstock.operations.sending import Sent
from penstock.resources.destinations import EXPIRING_MESSAGE
from penstock.runtime.errors import UserError

runner = CliRunner()


def event(**attributes: str) -> CloudEvent:
    return event_of("{}", attributes=[f"{name}={value}" for name, value in attributes.items()])


def record(sent: CloudEvent, *more: tuple[str, bytes]) -> LogRecord:
    made = record_of(sent, list(more))
    return LogRecord(0, 7, 1_700_000_000_000, None, made.headers, made.value)


def attempt(**changes: Any) -> AttemptRecord:
    first = AttemptRecord(
        1_700_000_000.0, "r", 0, 7, "1", "/s", "t", "subscriber", 1, "http://s/", "delivered", 0.004, 204
    )
    return msgspec.structs.replace(first, **{"kind": "Trigger", "namespace": "default", "name": "greetings", **changes})


# --- events by flags -----------------------------------------------------------------------------------------------


def test_an_event_needs_nothing_but_its_data() -> None:
    made = event_of('{"hello": "world"}')
    assert (made.type, made.source, made.data) == ("dev.penstock.message", "/penstock/send", b'{"hello": "world"}')
    assert made.attributes["datacontenttype"] == "application/json"
    assert event_of("hello").attributes["datacontenttype"] == "text/plain"
    assert event_of().data is None


def test_flags_say_more(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"\xff\xfe")
    made = event_of(file=tmp_path / "data", type="t", id="1", attributes=["Tenant=a=b"])
    assert (made.type, made.id, made.attributes["tenant"], made.data) == ("t", "1", "a=b", b"\xff\xfe")
    assert made.attributes["datacontenttype"] == "application/octet-stream"


def test_a_whole_event_comes_from_a_file_and_flags_replace_what_it_says(tmp_path: Path) -> None:
    (tmp_path / "e.json").write_bytes(msgspec.json.encode(event_object(event(id="1", tenant="a"))))
    made = event_of(event=tmp_path / "e.json", id="2")
    assert (made.id, made.attributes["tenant"], made.data) == ("2", "a", b"{}")


def test_standard_input_is_a_dash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"from a pipe")))
    assert event_of("-").data == b"from a pipe"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"data": "x", "file": Path("y")}, "Only one of"),
        ({"attributes": ["tenant"]}, "NAME=VALUE"),
        ({"attributes": ["data=1"]}, "reserved"),
        ({"attributes": ["a-b=1"]}, "not an attribute name"),
        ({"type": ""}, "'type' is empty"),
        ({"file": Path("/nowhere/at/all")}, "cannot be read"),
    ],
)
def test_what_is_no_event_is_said_in_a_sentence(arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError) as problem:
        event_of(**arguments)
    assert told in problem.value.what


def test_each_of_many_has_an_id_of_its_own() -> None:
    one = event(id="a")
    assert [numbered(one, number).id for number in range(3)] == ["a", "a-1", "a-2"]


# --- filters and explanations --------------------------------------------------------------------------------------


def test_filters_are_written_in_three_ways() -> None:
    assert filters_of(["type=greeting", "{prefix: {source: /a}}", "subject = 'x'"]) == [
        {"exact": {"type": "greeting"}},
        {"prefix": {"source": "/a"}},
        {"cesql": "subject = 'x'"},
    ]
    predicate = predicate_of(["type=greeting", "subject LIKE 'a%'"])
    assert passes(predicate, event(type="greeting", subject="abc"))
    assert not passes(predicate, event(type="greeting", subject="b"))
    assert passes(predicate_of(None), event())


@pytest.mark.parametrize("text", ["{exact: {Type: x}}", "{prefix: [", "type ="])
def test_what_is_no_filter_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="--filter"):
        predicate_of([text])


TRIGGER: dict[str, Any] = {
    "kind": "Trigger",
    "metadata": {"name": "greetings", "annotations": {}},
    "spec": {
        "filters": [
            {"exact": {"type": "greeting"}},
            {"any": [{"prefix": {"source": "/a"}}, {"not": {"suffix": {"subject": "z"}}}]},
            {"cesql": "priority > 3"},
        ]
    },
}


def test_an_explanation_goes_filter_by_filter() -> None:
    verdict = reasons(TRIGGER, event(type="greeting", source="/b", subject="xyz", priority="2"))
    assert not verdict.matches
    assert [(step.depth, step.passes, step.text) for step in verdict.steps] == [
        (0, False, "all of"),
        (1, True, "type is 'greeting'"),
        (1, False, "any of"),
        (2, False, "source begins with '/a', but the event has '/b'"),
        (2, False, "not"),
        (3, True, "subject ends with 'z'"),
        (1, False, "priority > 3   is false"),
    ]
    assert verdict.sentence == "trigger/greetings does not get this event"


def test_an_explanation_names_what_is_missing_and_what_went_wrong() -> None:
    texts = [step.text for step in reasons(TRIGGER, event(type="other")).steps]
    assert "type is 'greeting', but the event has 'other'" in texts
    assert any(text.startswith("priority > 3   is an error: ") for text in texts)


def test_an_explanation_looks_into_data() -> None:
    spec = {"filters": [{"data": {"order.country": "DE", "order.total": {"gt": 100}}}]}
    trigger = {"kind": "Trigger", "metadata": {"name": "big"}, "spec": spec}
    well = reasons(trigger, event_of('{"order": {"country": "DE", "total": 120}}'))
    assert well.matches
    assert [step.text for step in well.steps][1:] == ["data.order.country is 'DE'", "data.order.total is above 100"]
    texts = [step.text for step in reasons(trigger, event_of('{"order": {"country": "FR"}}')).steps]
    assert "data.order.country is 'DE', but the event has 'FR'" in texts
    assert "data.order.total is above 100, but the event has none" in texts


def test_an_event_that_passes_may_wait_for_other_reasons() -> None:
    down = {"type": "Delivering", "status": "False", "message": "http://s/ refuses connections"}
    unready = {"type": "Ready", "status": "False", "message": "no Broker"}
    verdict = reasons(
        {"kind": "Trigger", "metadata": {"name": "t"}, "status": {"conditions": [down, unready]}}, event()
    )
    assert verdict.matches
    assert verdict.notes == ["it is not Ready: no Broker", "deliveries fail: http://s/ refuses connections"]
    paused = {"kind": "Trigger", "metadata": {"name": "t", "annotations": {"penstock.dev/paused": "true"}}}
    assert reasons(paused, event()).notes == ["it is paused: events wait"]


def test_explain_needs_no_stack_where_the_trigger_is_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "t.yaml"
    file.write_text(json.dumps({"apiVersion": "eventing.knative.dev/v1", **TRIGGER}))
    well = ["explain", "--trigger", str(file), "--type", "greeting", "--source", "/a", "-a", "priority=9"]
    result = runner.invoke(app, well)
    assert (result.exit_code, result.output.splitlines()[-1]) == (0, "trigger/greetings gets this event")
    result = runner.invoke(app, [*well, "--type", "other", "--json"])
    assert result.exit_code == 1
    assert json.loads(result.output)["matches"] is False
    assert runner.invoke(app, ["explain"]).exit_code == 2


# --- following an event --------------------------------------------------------------------------------------------


def test_a_journey_is_over_when_every_route_has_answered() -> None:
    journey = Journey(("1", "/s"))
    sent = event(id="1", source="/s")
    assert not journey.matched(record(event(id="2", source="/s"), (records.ROUTES, b"x")))
    assert journey.matched(record(sent, (records.ROUTES, b"a,b"), (records.PARTS_LEFT, b"1")))
    assert not journey.known
    assert journey.matched(record(sent, (records.ROUTES, b"c")))
    assert not journey.attempted(attempt(route="a", id="2"))
    for route in "ab":
        assert journey.attempted(attempt(route=route))
    journey.attempted(attempt(route="c", result="retry"))
    assert (journey.is_over, journey.waiting) == (False, ["c"])
    journey.attempted(attempt(route="c", result="deadletter"))
    journey.attempted(attempt(route="c", stage="deadletter"))
    assert (journey.is_over, journey.is_delivered) == (True, False)


def test_a_reply_is_waited_for() -> None:
    journey = Journey(("1", "/s"))
    journey.matched(record(event(id="1", source="/s"), (records.ROUTES, b"a")))
    journey.attempted(attempt(route="a", result="replied"))
    assert not journey.is_over
    journey.attempted(attempt(route="a", stage="reply"))
    assert (journey.is_over, journey.is_delivered) == (True, True)


# --- what is shown -------------------------------------------------------------------------------------------------


def test_events_and_attempts_are_lines() -> None:
    shown = [text for text, _ in event_line(event_of('{"a": 1}', id="1", type="t", source="/s"), 1_700_000_000.0)]
    assert shown == ["22:13:20.000", "t", "1", "from /s", '{"a": 1}']
    failed = attempt(result="retry", status=None, attempt=2, reason="no response within 5 s", due=1_700_000_003.5)
    shown = [text for text, _ in attempt_line(failed, 1_700_000_001.5)]
    assert shown[1:] == [
        "trigger/greetings",
        "retry",
        "no response in 4 ms",
        "http://s/",
        "attempt 2",
        "no response within 5 s",
        "next try in 2.0 s",
    ]


def test_data_is_shown_in_one_line_and_binary_data_by_its_size() -> None:
    assert data_text(b'{\n  "a": 1\n}', "application/json") == '{ "a": 1 }'
    assert data_text(b"x" * 500, "text/plain").endswith("… (500 bytes)")
    assert data_text(b"\xff", "image/png") == "1 bytes of image/png"


def test_a_sample_says_of_how_many_it_is_one() -> None:
    said: list[tuple[int, int]] = []
    now = [100.0]
    sample = SampleLimit(lambda shown, of: said.append((shown, of)), limit=3, clock=lambda: now[0])
    assert [sample.admits() for _ in range(5)] == [True, True, True, False, False]
    now[0] = 101.0
    assert sample.admits()
    assert said == [(3, 5)]


def test_tail_takes_what_is_wanted_and_nothing_else() -> None:
    wanted = ViewSelection(predicate_of(["type=t"]), uid="b")
    assert wanted.event(record(event(type="t"), (records.TARGET, b"b"))) is not None
    assert wanted.event(record(event(type="t"), (records.TARGET, b"c"))) is None
    assert wanted.event(record(event(type="u"), (records.TARGET, b"b"))) is None
    assert wanted.event(LogRecord(0, 0, 0, None, [(records.MARKER, b"1:1:1")], None)) is None
    deliveries = ViewSelection(predicate_of(["type=t"]), is_attempts=True, uid="r")
    assert deliveries.attempt(LogRecord(0, 0, 0, None, [], attempts.encode(attempt()))) == attempt()
    assert deliveries.attempt(LogRecord(0, 0, 0, None, [], attempts.encode(attempt(route="x")))) is None
    assert deliveries.attempt(LogRecord(0, 0, 0, None, [], attempts.encode(attempt(type="u")))) is None
    assert deliveries.attempt(LogRecord(0, 0, 0, None, [], b"no attempt")) is None


def test_what_was_sent_is_told_to_people_and_to_programs() -> None:
    good, bad = Sent("http://i/", "1", "/s", 202, 0.003), Sent("http://i/", "1", "/s", 404, 0.003, "no such Broker")
    assert good.line() == "accepted: 1 (202 after 3 ms)"
    assert bad.line() == "not accepted by http://i/: 404 no such Broker"
    assert json.loads(bad.json()) == {
        "id": "1",
        "source": "/s",
        "status": 404,
        "seconds": 0.003,
        "problem": "no such Broker",
    }
    assert SendingOutcome(10, 2, 2.0).line() == "10 accepted, 2 not in 2.0 s (5/s)"


# --- routes in tables ----------------------------------------------------------------------------------------------

LABELS = ("kind", "namespace", "name")
GREETINGS = ("Trigger", "default", "greetings")


def metrics(succeeded: int, failed: int, lagging: int, slow: int) -> list[Any]:
    counted = CounterMetricFamily("penstock_delivery_attempts", "", labels=(*LABELS, "stage", "outcome"))
    counted.add_metric((*GREETINGS, "subscriber", "success"), succeeded)
    counted.add_metric((*GREETINGS, "subscriber", "retryable"), failed)
    counted.add_metric((*GREETINGS, "deadletter", "success"), 99)
    behind = GaugeMetricFamily("penstock_route_lag_events", "", labels=LABELS)
    behind.add_metric(GREETINGS, lagging)
    behind.add_metric(("Broker", "default", "default"), 5)
    took = HistogramMetricFamily("kn_eventing_dispatch_duration_seconds", "", labels=(*LABELS, "code"))
    took.add_metric((*GREETINGS, "204"), [("0.01", succeeded - slow), ("0.1", succeeded), ("+Inf", succeeded)], 0)
    return [counted, behind, took]


def test_rates_are_what_happened_between_two_looks() -> None:
    before, after = counters_of(metrics(100, 10, 3, 0)), counters_of(metrics(300, 20, 7, 0))
    [row] = rows_of(before, after, 2.0)
    assert row.route == RouteName(*GREETINGS)
    assert (row.rate, row.failures, row.lag) == (100.0, 5.0, 7)
    assert row.p50 == pytest.approx(0.005)
    [line] = top.lines([row])[1:]
    assert line.split() == ["100", "5.0", "5", "10", "7", "trigger/greetings"]
    assert top.as_object(row)["deliveries_per_second"] == 100.0
    assert all(sorted([row], key=sort) == [row] for sort in SORTS.values())


def test_a_quantile_lies_within_its_bucket() -> None:
    assert quantile(0.5, {0.1: 0, 0.2: 10, float("inf"): 10}) == pytest.approx(0.15)
    assert quantile(0.99, {0.1: 0, float("inf"): 10}) == 0.1
    assert quantile(0.5, {0.1: 0, float("inf"): 0}) is None
    assert quantile(0.5, {}) is None


def test_the_table_of_routes_fits_80_columns() -> None:
    after = counters_of(metrics(1_234_567, 99_999, 9_876_543, 0))
    assert max(map(len, top.lines(rows_of({}, after, 1.0)))) <= 80


NOW = datetime(2026, 11, 17, 12, 0, 40, tzinfo=UTC)


def route(name: str, lagging: int, **more: Any) -> dict[str, Any]:
    conditions = [{"type": "Delivering", "status": "False", "reason": "Timeout", "message": "slow"}] if more else []
    delivery = {"lag": lagging, "oldestEventTime": "2026-11-17T12:00:00Z"}
    status = {"delivery": delivery, "conditions": conditions}
    return {"kind": "Trigger", "metadata": {"name": name, "namespace": "default"}, "status": status}


def test_lag_shows_the_worst_first_and_why() -> None:
    rows = lag.route_lags([route("a", 3), route("b", 900, fails=True)], None, NOW)
    assert [(row["name"], row["lag"], row["oldest_seconds"]) for row in rows] == [("b", 900, 40.0), ("a", 3, 40.0)]
    shown = lag.lines(rows)
    assert shown[1].split() == ["900", "40s", "Timeout", "trigger/b"]
    assert shown[-1] == "trigger/b: slow"


def test_lag_names_the_routes_that_will_lose_events() -> None:
    soon = route("a", 3)
    soon["status"]["conditions"].append({"type": "EventsRetained", **EXPIRING_CONDITION})
    rows = lag.route_lags([soon, route("b", 2)], None, NOW)
    assert [row["expiring"] for row in rows] == [EXPIRING_MESSAGE, None]
    assert lag.lines(rows)[-1] == f"trigger/a: {EXPIRING_MESSAGE}"


EXPIRING_CONDITION = {"status": "Unknown", "reason": "EventsExpiring", "message": EXPIRING_MESSAGE}


def test_numbers_that_were_measured_count_more_than_those_of_a_status() -> None:
    measured = [{"kind": "Trigger", "namespace": "default", "name": "a", "lag": 7, "oldest_seconds": 1.5}]
    rows = lag.route_lags([route("a", 3), route("b", 900)], measured, NOW)
    assert [(row["name"], row["lag"], row["oldest_seconds"]) for row in rows] == [("a", 7, 1.5), ("b", 0, None)]


# --- objects -------------------------------------------------------------------------------------------------------


def test_a_table_of_the_server_is_printed_whole() -> None:
    table = {
        "columnDefinitions": [
            {"name": "Name", "type": "string"},
            {"name": "Age", "type": "date"},
            {"name": "Lag", "type": "integer", "priority": 1},
        ],
        "rows": [
            {"cells": ["t", "5m", 3], "object": {"metadata": {"namespace": "team"}}},
            {"cells": ["u", None, None]},
        ],
    }
    assert table_lines(table, wide=False, everywhere=False) == ["NAME  AGE", "t     5m", "u"]
    assert table_lines(table, wide=True, everywhere=True)[1] == "team       t     5m   3"
    table["rows"] = []
    assert table_lines(table, wide=False, everywhere=False) == []


def test_documents_and_kinds() -> None:
    assert json.loads(document([{"a": 1}], as_yaml=False)) == {"apiVersion": "v1", "kind": "List", "items": [{"a": 1}]}
    assert document({"a": 1}, as_yaml=True) == "a: 1"
    resource = Resource("v1", "Pod", "pods", True, ("pod", "po"))
    assert kinds_lines([resource])[1] == "pods  v1           po"
    assert resource.path("ns", "p") == "/api/v1/namespaces/ns/pods/p"


def test_manifests_are_files_folders_and_lists(tmp_path: Path) -> None:
    one = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    (tmp_path / "a.yaml").write_text(f"{json.dumps(one)}\n---\n---\n{json.dumps({**one, 'metadata': {'name': 'b'}})}")
    (tmp_path / "c.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [one]}))
    assert [obj["metadata"]["name"] for obj in read_manifests(tmp_path)] == ["a", "b", "a"]


@pytest.mark.parametrize(
    ("text", "told"),
    [("[", "not valid YAML"), ("a: 1", "apiVersion or kind"), ("{apiVersion: v1, kind: Pod}", "no metadata.name")],
)
def test_what_is_no_object_is_named(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "x.yaml").write_text(text)
    with pytest.raises(UserError, match=told):
        read_manifests(tmp_path / "x.yaml")
    with pytest.raises(UserError, match="cannot be read"):
        read_manifests(tmp_path / "nowhere.yaml")


def test_names_have_a_kind_or_a_usual_one() -> None:
    assert split("greetings", "trigger") == ("trigger", "greetings")
    assert split("sub/a", "trigger") == ("subscription", "a")
    for wrong in ("pod/a", "trigger/"):
        with pytest.raises(UserError, match=re.escape(wrong)):
            split(wrong, "trigger")


UNREADY = {"conditions": [{"type": "Ready", "status": "False", "reason": "BrokerDoesNotExist", "message": "no Broker"}]}


@pytest.mark.parametrize(
    ("spec", "status", "sentence", "arrives"),
    [
        ({}, {}, "trigger/t gets this event", True),
        ({}, UNREADY, "trigger/t matches this event, but does not get it: it is not Ready", False),
        ({"filters": [{"exact": {"type": "other"}}]}, UNREADY, "trigger/t does not get this event", False),
    ],
    ids=["ready", "matches, not Ready", "does not match"],
)
def test_a_match_is_told_apart_from_a_delivery(
    spec: dict[str, Any], status: dict[str, Any], sentence: str, arrives: bool
) -> None:
    trigger = {"kind": "Trigger", "metadata": {"name": "t"}, "spec": {"broker": "b", **spec}, "status": status}
    one = event(type="greeting")
    verdict = reasons(trigger, one)
    assert (verdict.sentence, verdict.is_delivered) == (sentence, arrives)
    assert matches_unready(trigger, one) == ("matches" in sentence)


def test_a_route_with_invalid_filters_is_not_named_as_one_that_would_match() -> None:
    broken = {"kind": "Trigger", "metadata": {"name": "t"}, "spec": {"filters": [{"cesql": "("}]}, "status": UNREADY}
    assert not matches_unready(broken, event(type="greeting"))
