"""Conditions and how Ready sums them up (control-plane-spec, Error Signalling)."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.resources.conditions import ConditionFinding, conclude, false, find, is_ready, true, unknown

NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:00:09Z"

states = st.sampled_from(["True", "False", "Unknown"])
severities = st.sampled_from(["", "Info", "Warning"])
findings = st.lists(
    st.builds(ConditionFinding, st.sampled_from("ABCDEF"), states, st.just("R"), st.just("m"), severities),
    min_size=1,
    max_size=6,
    unique_by=lambda finding: finding.type,
)


@given(findings)
def test_if_an_error_condition_is_false_ready_must_be_false(found: list[ConditionFinding]) -> None:
    ready = find(conclude([], found, NOW), "Ready") or {}
    if any(f.status == "False" and not f.severity for f in found):
        assert ready["status"] == "False"


@given(findings)
def test_if_an_error_condition_is_unknown_ready_must_be_false_or_unknown(found: list[ConditionFinding]) -> None:
    ready = find(conclude([], found, NOW), "Ready") or {}
    if any(f.status == "Unknown" and not f.severity for f in found):
        assert ready["status"] in ("False", "Unknown")


@given(findings)
def test_ready_is_true_when_every_error_condition_is(found: list[ConditionFinding]) -> None:
    ready = find(conclude([], found, NOW), "Ready") or {}
    if all(f.status == "True" or f.severity for f in found):
        assert ready == {"type": "Ready", "status": "True", "lastTransitionTime": NOW}


@given(findings)
def test_each_resource_must_have_a_ready_condition_and_types_are_unique_and_sorted(
    found: list[ConditionFinding],
) -> None:
    types = [condition["type"] for condition in conclude([], found, NOW)]
    assert types == sorted(set(types))
    assert "Ready" in types


@given(findings)
def test_finding_the_same_again_changes_nothing(found: list[ConditionFinding]) -> None:
    once = conclude([], found, NOW)
    assert conclude(once, found, LATER) == once


def test_ready_takes_reason_and_message_of_the_failure_that_came_last() -> None:
    first = conclude([], [false("A", "First", "one"), true("B")], NOW)
    both = conclude(first, [false("A", "First", "one"), false("B", "Second", "two")], LATER)
    ready = find(both, "Ready") or {}
    assert (ready["reason"], ready["message"], ready["lastTransitionTime"]) == ("Second", "two", LATER)


def test_of_failures_at_the_same_time_the_first_finding_speaks() -> None:
    ready = find(conclude([], [false("Z", "Broker"), false("A", "Subscriber")], NOW), "Ready") or {}
    assert ready["reason"] == "Broker"


def test_a_failure_outweighs_what_is_unknown() -> None:
    ready = find(conclude([], [unknown("A", "Waiting"), false("B", "Broken")], NOW), "Ready") or {}
    assert (ready["status"], ready["reason"]) == ("False", "Broken")


def test_only_what_changes_gets_a_new_time() -> None:
    before = conclude([], [true("A"), unknown("B")], NOW)
    after = {c["type"]: c["lastTransitionTime"] for c in conclude(before, [true("A"), true("B")], LATER)}
    assert after == {"A": NOW, "B": LATER, "Ready": LATER}


def test_an_object_is_ready_only_for_the_generation_that_was_observed() -> None:
    obj = {
        "metadata": {"generation": 2},
        "status": {"observedGeneration": 1, "conditions": [{"type": "Ready", "status": "True"}]},
    }
    assert not is_ready(obj)
    obj["status"]["observedGeneration"] = 2  # type: ignore[index]
    assert is_ready(obj)
