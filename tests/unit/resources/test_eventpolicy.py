"""Validation, defaults, status and reach of EventPolicies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.resources.conditions import find
from penstock.resources.eventpolicy import EventPolicy, EventPolicyObservation, NoSubjects, status_of, subjects_of

Obj = dict[str, Any]
DENIED = 'admission webhook "validation.webhook.eventing.knative.dev" denied the request: validation failed: '
ENABLED = {"authentication-oidc": "enabled"}
REF = {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "name": "b"}
LABELS = {"tier": "gold"}


def policy(**spec: Any) -> Obj:
    return {"metadata": {"name": "p", "namespace": "default", "generation": 1}, "spec": spec}


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"from": [{}]}, "expected exactly one, got neither: spec.from[0].ref, spec.from[0].sub"),
        ({"from": [{"sub": ""}]}, "expected exactly one, got neither: spec.from[0].ref, spec.from[0].sub"),
        (
            {"from": [{"sub": "a", "ref": {**REF, "namespace": "x"}}]},
            "expected exactly one, got both: spec.from[0].ref, spec.from[0].sub",
        ),
        (
            {"from": [{"sub": "a*b"}]},
            "invalid value: a*b: spec.from[0].sub\n'*' is only allowed as suffix",
        ),
        (
            {"from": [{"ref": {"kind": "Broker"}}]},
            "missing field(s): spec.from[0].ref.apiVersion, spec.from[0].ref.name",
        ),
        ({"to": [{}]}, "expected exactly one, got neither: spec.to[0].ref, spec.to[0].selector"),
        (
            {"to": [{"ref": REF, "selector": {"kind": "Broker"}}]},
            "expected exactly one, got both: spec.to[0].ref, spec.to[0].selector",
        ),
        ({"to": [{"ref": {"name": "b"}}]}, "missing field(s): spec.to[0].ref.apiVersion, spec.to[0].ref.kind"),
    ],
)
def test_what_is_refused(refusal: Callable[..., str], spec: Obj, told: str) -> None:
    assert refusal("EventPolicy", policy(**spec), features=ENABLED) == DENIED + told


def test_filters_are_those_of_triggers(refusal: Callable[..., str]) -> None:
    told = refusal("EventPolicy", policy(filters=[{"exact": {"type": "a"}, "prefix": {"type": "b"}}]), features=ENABLED)
    assert "multiple dialects found, filters can have only one dialect set" in told
    assert "spec.filters[0]" in told


def test_where_nothing_would_enforce_it_it_is_refused(refusal: Callable[..., str], admit: Callable[..., Obj]) -> None:
    assert refusal("EventPolicy", policy()) == DENIED + "oidc-authentication feature not enabled: "
    stored = policy(**{"from": [{"sub": "a"}]})
    assert refusal("EventPolicy", policy(), stored).startswith(DENIED + "oidc-authentication feature not enabled")
    labelled = {**stored, "metadata": {**stored["metadata"], "labels": {"a": "b"}}}
    assert admit("EventPolicy", labelled, stored)["metadata"]["labels"] == {"a": "b"}


def test_a_reference_without_a_namespace_is_to_the_policys_own(admit: Callable[..., Obj]) -> None:
    filled = admit("EventPolicy", policy(**{"from": [{"ref": dict(REF)}, {"sub": "*"}]}), features=ENABLED)
    assert filled["spec"]["from"] == [{"ref": {**REF, "namespace": "default"}}, {"sub": "*"}]


@pytest.mark.parametrize(
    ("entry", "applies"),
    [
        ({"ref": REF}, True),
        ({"ref": {**REF, "apiVersion": "eventing.knative.dev/v2"}}, True),
        ({"ref": {**REF, "name": "c"}}, False),
        ({"ref": {**REF, "kind": "Trigger"}}, False),
        ({"ref": {**REF, "apiVersion": "messaging.knative.dev/v1"}}, False),
        ({"selector": {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "matchLabels": LABELS}}, True),
        ({"selector": {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "matchLabels": {"a": "b"}}}, False),
        ({"selector": {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker"}}, True),
        ({}, False),
    ],
)
def test_what_it_applies_to(entry: Obj, applies: bool) -> None:
    read = EventPolicy.read(policy(to=[entry]))
    assert read.applies_to("eventing.knative.dev", "Broker", "b", LABELS) is applies


def test_a_selector_that_is_none_applies_to_nothing() -> None:
    wrong = {"kind": "Broker", "apiVersion": "eventing.knative.dev/v1", "matchExpressions": [{"key": "a"}]}
    read = EventPolicy.read(policy(to=[{"selector": wrong}]))
    assert not read.applies_to("eventing.knative.dev", "Broker", "b", LABELS)


def test_what_was_said_of_an_earlier_spec_does_not_count() -> None:
    obj = policy(**{"from": [{"sub": "a"}]})
    obj["status"] = status_of(obj, EventPolicyObservation(enabled=True, subjects=("a",)), "now")
    assert EventPolicy.read(obj).is_ready
    obj["metadata"]["generation"] = 2
    assert not EventPolicy.read(obj).is_ready


def test_status() -> None:
    off = status_of(policy(), EventPolicyObservation(enabled=False), "now")
    told = find(off["conditions"], "AuthenticationEnabled")
    assert told is not None
    assert (told["status"], told["reason"]) == ("False", "OIDCAuthenticationDisabled")
    failed = status_of(policy(), EventPolicyObservation(enabled=True, problem="why"), "now")
    told = find(failed["conditions"], "Ready")
    assert told is not None
    assert (told["status"], told["reason"], told["message"]) == ("False", "SubjectsNotResolved", "why")
    assert "from" not in failed


def test_subjects_of_what_it_refers_to() -> None:
    found = {"status": {"auth": {"serviceAccountNames": ["a", "b"], "serviceAccountName": "c"}}}
    reference = {**REF, "namespace": "ns"}
    assert subjects_of(reference, found) == [f"system:serviceaccount:ns:{name}" for name in "abc"]
    with pytest.raises(NoSubjects, match=r"\.status\.auth is missing in object ns/b"):
        subjects_of(reference, {})
