"""Defaults, validation and status of Replays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.resources.conditions import find
from penstock.resources.registry import AdmissionDenied, crds
from penstock.resources.replay import (
    PartitionProgress,
    ReplayFailure,
    ReplayObservation,
    ReplaySpec,
    is_over,
    status_of,
)

Obj = dict[str, Any]
TRIGGER = {"kind": "Trigger", "name": "t"}
BROKER = {"kind": "Broker", "name": "b"}
SINK = {"uri": "http://sink"}
NOW, LATER = "2026-11-01T12:00:00Z", "2026-11-01T12:10:00Z"


def replay(**spec: Any) -> Obj:
    metadata = {"name": "r", "namespace": "ns", "uid": "u", "generation": 1, "creationTimestamp": NOW}
    asked = spec if "source" in spec or "target" in spec else {"target": TRIGGER, **spec}
    return {"apiVersion": "penstock.dev/v1alpha1", "kind": "Replay", "metadata": metadata, "spec": asked}


def test_references_get_what_was_left_out(admit: Callable[..., Obj]) -> None:
    filled = admit("Replay", replay())["spec"]
    assert filled["target"] == {**TRIGGER, "apiVersion": "eventing.knative.dev/v1", "namespace": "ns"}
    filled = admit("Replay", replay(source=BROKER, sink={"ref": {"apiVersion": "v1", "kind": "Service", "name": "s"}}))
    assert filled["spec"]["source"]["apiVersion"] == "eventing.knative.dev/v1"
    assert filled["spec"]["sink"]["ref"]["namespace"] == "ns"


@pytest.mark.parametrize(
    "spec",
    [
        {"from": "PT2H"},
        {"from": "PT2H", "to": "PT1H"},
        {"from": "1d12h", "to": "PT1H"},
        {"from": "2026-11-01T00:00:00Z", "to": "2026-11-02T00:00:00Z"},
        {"from": "2026-11-01T00:00:00Z", "to": "PT1M"},
        {"eventIds": ["a"], "filters": [{"exact": {"type": "x"}}], "rate": 0.5, "dryRun": True},
        {"deadLetters": True, "reason": "HTTP status 500", "from": "PT1H"},
        {"source": BROKER, "sink": SINK, "delivery": {"retry": 3}},
        {"target": {"kind": "Subscription", "name": "s"}},
    ],
)
def test_replays_of_all_sorts_are_stored(admit: Callable[..., Obj], spec: Obj) -> None:
    assert ReplaySpec.read(admit("Replay", replay(**spec))).identity.name == "r"


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ({"target": None}, "expected exactly one, got neither: spec.source, spec.target"),
        ({"target": TRIGGER, "source": BROKER}, "expected exactly one, got both: spec.source, spec.target"),
        ({"target": {"kind": "Broker", "name": "b"}}, "invalid value: Broker: spec.target.kind"),
        ({"target": {"kind": "Trigger"}}, "missing field(s): spec.target.name"),
        ({"target": {**TRIGGER, "namespace": "other"}}, "mismatched namespaces: spec.target.namespace"),
        ({"target": {**TRIGGER, "apiVersion": "v1"}}, "invalid value: v1: spec.target.apiVersion"),
        ({"sink": SINK}, "must not set the field(s): spec.sink"),
        ({"source": BROKER}, "missing field(s): spec.sink"),
        ({"source": BROKER, "sink": {"uri": "/relative"}}, "spec.sink.uri"),
        ({"source": BROKER, "sink": SINK, "deadLetters": True}, "must not set the field(s): spec.deadLetters"),
        ({"reason": "x"}, "must not set the field(s): spec.reason"),
        ({"from": "yesterday"}, "invalid value: yesterday: spec.from"),
        ({"from": "PT1H", "to": "PT2H"}, "invalid value: PT2H: spec.to"),
        ({"from": "60m", "to": "PT2H"}, "invalid value: PT2H: spec.to"),
        ({"from": "2026-11-02T00:00:00Z", "to": "2026-11-01T00:00:00Z"}, "spec.to"),
        ({"rate": 0}, "invalid value: 0: spec.rate"),
        ({"filters": [{"exact": {"Type": "x"}}]}, "spec.filters"),
    ],
)
def test_what_makes_no_sense_is_refused(admit: Callable[..., Obj], spec: Obj, complaint: str) -> None:
    with pytest.raises(AdmissionDenied) as refused:
        admit("Replay", replay(**spec))
    assert complaint in str(refused.value)


def test_what_was_asked_for_stays_once_it_has_begun(admit: Callable[..., Obj]) -> None:
    old = admit("Replay", replay(rate=5))
    changed = admit("Replay", replay(rate=6), old=old)
    assert changed["spec"]["rate"] == 6
    old["status"] = {"startTime": NOW}
    with pytest.raises(AdmissionDenied, match=r"Immutable fields changed \(-old \+new\): spec"):
        admit("Replay", replay(rate=6), old=old)
    labelled = admit("Replay", replay(rate=5))
    labelled["metadata"]["labels"] = {"a": "b"}
    assert admit("Replay", labelled, old=old)["metadata"]["labels"] == {"a": "b"}


def test_a_replay_is_read() -> None:
    spec = ReplaySpec.read(replay(**{"from": "PT1H", "to": "2026-11-01T11:30:00Z", "rate": 5}))
    assert (spec.since, spec.until, spec.rate) == (1793534400.0 - 3600, 1793534400.0 - 1800, 5.0)
    spec = ReplaySpec.read(replay())
    assert (spec.since, spec.until, spec.rate, spec.dead_letters) == (0.0, None, None, False)


def test_it_runs_and_then_it_has_succeeded() -> None:
    waiting = status_of(replay(), ReplayObservation(ReplayFailure("TargetNotFound", "no t")), NOW)
    assert condition(waiting) == ("Unknown", "TargetNotFound")
    assert "startTime" not in waiting
    begun = status_of(replay(), ReplayObservation(begun=True), NOW)
    assert (condition(begun), begun["startTime"]) == (("Unknown", "Running"), NOW)
    half = [PartitionProgress(0, 0, 10, 10, 4, 0, 1, 0, False), PartitionProgress(1, 10, 20, 10)]
    running = status_of({**replay(), "status": begun}, ReplayObservation(begun=True, partitions=half), LATER)
    assert (running["counted"], running["sent"], running["progress"], running["startTime"]) == (4, 3, "50%", NOW)
    done = [PartitionProgress(0, 0, 10, 10, 4, finished=True), PartitionProgress(1, 10, 20, 20, 1, finished=True)]
    obj = {**replay(), "status": running}
    ended = status_of(obj, ReplayObservation(begun=True, partitions=done), LATER)
    assert (condition(ended), ended["completionTime"], ended["sent"]) == (("True", None), LATER, 5)
    assert is_over({"status": ended})
    assert not is_over(obj)


def test_events_that_could_not_be_delivered_make_it_fail_once_it_is_complete() -> None:
    done = [PartitionProgress(0, 0, 10, 10, 4, failed=1, finished=True)]
    ended = status_of(replay(), ReplayObservation(begun=True, partitions=done), NOW)
    assert condition(ended) == ("False", "EventsFailed")
    assert (ended["sent"], ended["failed"]) == (3, 1)


def test_a_target_that_went_ends_it() -> None:
    half = [PartitionProgress(0, 0, 10, 5, 4, 0, 1, 0, False)]
    failed = status_of(replay(), ReplayObservation(None, ReplayFailure("TargetGone", "t went"), half, False, True), NOW)
    assert condition(failed) == ("False", "TargetGone")
    assert failed["completionTime"] == NOW


def test_a_dry_run_sends_nothing() -> None:
    done = [PartitionProgress(0, 0, 10, 10, 4, finished=True)]
    ended = status_of(replay(), ReplayObservation(begun=True, partitions=done, dry_run=True), NOW)
    assert (condition(ended), ended["counted"], ended["sent"]) == (("True", None), 4, 0)


def test_what_is_no_longer_kept_is_told_and_stays_told() -> None:
    first = status_of(replay(), ReplayObservation(begun=True, not_kept="older events may be missing"), NOW)
    lost = find(first["conditions"], "EventsRetained")
    assert lost is not None
    assert (lost["status"], lost["severity"], lost["message"]) == ("False", "Warning", "older events may be missing")
    done = [PartitionProgress(0, 0, 10, 10, 4, finished=True)]
    later = status_of({**replay(), "status": first}, ReplayObservation(begun=True, partitions=done), LATER)
    assert find(later["conditions"], "EventsRetained") == lost
    assert condition(later) == ("True", None)
    gone = [PartitionProgress(0, 0, 10, 10, 4, missing=3, finished=True)]
    later = status_of({**replay(), "status": first}, ReplayObservation(begun=True, partitions=gone), LATER)
    assert "3 events" in (find(later["conditions"], "EventsRetained") or {})["message"]


def test_its_columns_show_how_far_it_has_got() -> None:
    crd = next(crd for crd in crds() if crd["spec"]["names"]["kind"] == "Replay")
    columns = [column["name"] for column in crd["spec"]["versions"][0]["additionalPrinterColumns"]]
    assert columns == ["Counted", "Sent", "Failed", "Age", "Succeeded", "Reason"]


def condition(status: Obj) -> tuple[str, str | None]:
    found = find(status["conditions"], "Succeeded")
    assert found is not None
    return found["status"], found.get("reason")
