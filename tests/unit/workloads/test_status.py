"""What kubectl shows of a Pod: phase, conditions, container states; addresses, restarts, the sender's messages."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from penstock.workloads.actors import event_files
from penstock.workloads.actors.options import BrokenEnvironment, SenderOptions, read_options
from penstock.workloads.actors.sender import next_message
from penstock.workloads.pods.addresses import candidates
from penstock.workloads.pods.containerlife import LONGEST_SECONDS, back_off, restarts, waiting_message
from penstock.workloads.pods.podstatus import (
    Container,
    Running,
    State,
    Terminated,
    Waiting,
    lost_status,
    phase_of,
    running_status,
)

NOW, THEN = "2026-01-01T00:00:10Z", "2026-01-01T00:00:00Z"
POD: dict[str, Any] = {"metadata": {"name": "p", "namespace": "ns", "uid": "u1"}}
DONE, CRASHED = Terminated(0, THEN, NOW), Terminated(1, THEN, NOW, "SINK is empty")


def conditions(status: dict[str, Any]) -> dict[str, str]:
    return {condition["type"]: condition["status"] for condition in status["conditions"]}


def one(state: State, **more: Any) -> Container:
    return Container("recordevents", "x/recordevents", state, **more)


@pytest.mark.parametrize(
    ("containers", "phase"),
    [
        ([one(Waiting())], "Pending"),
        ([one(Waiting("CreateContainerConfigError"))], "Pending"),
        ([one(Running(THEN))], "Running"),
        ([one(Waiting("CrashLoopBackOff"), last=CRASHED)], "Running"),
        ([one(DONE)], "Succeeded"),
        ([one(CRASHED)], "Failed"),
        ([one(DONE), one(Running(THEN))], "Running"),
        ([one(DONE), one(CRASHED)], "Failed"),
    ],
)
def test_phases(containers: list[Container], phase: str) -> None:
    assert phase_of(containers) == phase


def test_a_running_pod_is_ready_and_has_an_address() -> None:
    status = running_status(POD, [one(Running(THEN))], "127.66.1.9", THEN, NOW)
    assert set(conditions(status).values()) == {"True"}
    assert set(conditions(status)) == {"Initialized", "PodScheduled", "ContainersReady", "Ready"}
    assert (status["podIP"], status["podIPs"], status["startTime"]) == ("127.66.1.9", [{"ip": "127.66.1.9"}], THEN)
    assert status["containerStatuses"][0]["state"] == {"running": {"startedAt": THEN}}


def test_a_crash_loop_shows_what_happened() -> None:
    waiting = Waiting("CrashLoopBackOff", waiting_message(10, "c", "p", "ns", "u1"))
    status = running_status(POD, [one(waiting, last=CRASHED, restarts=2)], "127.66.1.9", THEN, NOW)
    container = status["containerStatuses"][0]
    assert container["state"]["waiting"]["message"] == "back-off 10s restarting failed container=c pod=p_ns(u1)"
    assert container["lastState"]["terminated"] == {
        "exitCode": 1,
        "reason": "Error",
        "message": "SINK is empty",
        "startedAt": THEN,
        "finishedAt": NOW,
    }
    assert (container["restartCount"], conditions(status)["Ready"]) == (2, "False")


def test_a_completed_pod_is_not_ready_for_that_reason() -> None:
    status = running_status(POD, [one(DONE)], "127.66.1.9", THEN, NOW)
    ready = next(condition for condition in status["conditions"] if condition["type"] == "Ready")
    assert (status["phase"], ready["status"], ready["reason"]) == ("Succeeded", "False", "PodCompleted")


def test_a_condition_keeps_its_time_while_its_status_stays() -> None:
    first = running_status(POD, [one(Waiting())], "127.66.1.9", THEN, THEN)
    second = running_status({**POD, "status": first}, [one(Running(NOW))], "127.66.1.9", THEN, NOW)
    times = {condition["type"]: condition["lastTransitionTime"] for condition in second["conditions"]}
    assert times == {"Initialized": THEN, "PodScheduled": THEN, "ContainersReady": NOW, "Ready": NOW}


def test_a_pod_that_may_not_start_again_is_failed_after_the_node_was_away() -> None:
    before = running_status(POD, [one(Running(THEN))], "127.66.1.9", THEN, THEN)
    status = lost_status({**POD, "status": before}, NOW)
    assert (status["phase"], conditions(status)["Ready"]) == ("Failed", "False")
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137


@pytest.mark.parametrize(
    ("policy", "code", "again"),
    [
        ("Always", 0, True),
        ("Always", 1, True),
        ("OnFailure", 0, False),
        ("OnFailure", 1, True),
        ("Never", 0, False),
        ("Never", 1, False),
    ],
)
def test_restart_policies(policy: str, code: int, again: bool) -> None:
    assert restarts(policy, code) is again


def test_each_restart_waits_longer_up_to_a_limit() -> None:
    assert [back_off(failures) for failures in range(1, 8)] == [10, 20, 40, 80, 160, 300, 300]
    assert back_off(10_000) == LONGEST_SECONDS


@given(st.text(min_size=1, max_size=40))
def test_addresses_are_distinct_loopback_addresses(seed: str) -> None:
    found = candidates(seed)
    assert len(set(found)) == len(found)
    for address in found:
        first, second, third, fourth = (int(part) for part in address.split("."))
        assert (first, second) == (127, 66)
        assert 1 <= third <= 254
        assert 1 <= fourth <= 254


def sender(**env: str) -> SenderOptions:
    event = {"type": "t", "source": "s", "data": {"a": 1}, "datacontenttype": "application/json"}
    base = {"EVENT_GENERATORS": "sender", "SINK": "http://sink", "INPUT_EVENT": json.dumps(event)}
    options = read_options("recordevents", base | env).sender
    assert options is not None
    return options


def test_messages_are_numbered_where_asked_to() -> None:
    wanted = sender(ADD_SEQUENCE="true", INCREMENTAL_ID="true")
    messages = [dict(next_message(wanted, number).headers) for number in (1, 2)]
    assert [(message["ce-id"], message["ce-sequence"]) for message in messages] == [("1", "1"), ("2", "2")]
    assert next_message(wanted, 1).body == b' {"a": 1}'


@pytest.mark.parametrize(
    ("kind", "data", "sent"),
    [
        ("application/json", ' {\n  "ä" : 1.50\n }', ' {\n  "ä" : 1.50\n }'),
        ("application/json", '{"data":{"data": 1}}', '{"data":{"data": 1}}'),
        ("application/json", "\n7", "\n7"),
        ("text/plain", ' "he\\u006clo"', "hello"),
        ("text/plain", '""', ""),
    ],
)
def test_data_are_sent_as_they_were_written(kind: str, data: str, sent: str) -> None:
    event = f'{{"type": "t", "source": "s", "datacontenttype": "{kind}", "data" :{data} , "x": "1"}}'
    assert next_message(sender(INPUT_EVENT=event), 1).body == sent.encode()


def test_every_event_has_an_id_of_its_own() -> None:
    wanted = sender()
    ids = {dict(next_message(wanted, number).headers)["ce-id"] for number in range(1, 6)}
    assert len(ids) == 5


def test_structured_mode() -> None:
    message = next_message(sender(EVENT_ENCODING="structured", INCREMENTAL_ID="true"), 3)
    assert dict(message.headers)["content-type"].startswith("application/cloudevents+json")
    assert json.loads(message.body)["id"] == "3"


def test_headers_and_body_win_over_the_event() -> None:
    message = next_message(sender(INPUT_HEADERS="ce-id:9,x-a:b", INPUT_BODY="raw"), 1)
    assert (message.headers, message.body, message.event) == ([("ce-id", "9"), ("x-a", "b")], b"raw", None)


def test_an_event_that_is_none_is_a_broken_environment() -> None:
    with pytest.raises(BrokenEnvironment, match="INPUT_EVENT"):
        next_message(sender(INPUT_EVENT='{"source":"s"}'), 1)


def test_events_of_the_cloudevents_conformance_project() -> None:
    text = """
Mode: binary
ContextAttributes:
  SpecVersion: 1.0
  Type: io.cloudevents.minimum
  Time: 2018-04-05T17:31:00Z
  ID: 4321-4321-4321-a
  Source: /cloudevents/conformance
  Extensions:
    unquoted: true
    number: 5
Data: |-
  {"world":"hello"}
---
"""
    events = list(event_files.parse(text))
    assert len(events) == 1
    assert events[0].attributes == {
        "specversion": "1.0",
        "type": "io.cloudevents.minimum",
        "time": "2018-04-05T17:31:00Z",
        "id": "4321-4321-4321-a",
        "source": "/cloudevents/conformance",
        "unquoted": "true",
        "number": "5",
    }
    assert events[0].data == b'{"world":"hello"}'
    with pytest.raises(ValueError, match="ContextAttributes"):
        list(event_files.parse(yaml.safe_dump({"a": 1})))
