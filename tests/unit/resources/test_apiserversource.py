"""ApiServerSources: defaults, what is refused, and what the status says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.resources.apiserversource import ApiServerObservation, status_of
from penstock.resources.destinations import ResolvedAddress, Unresolved

Obj = dict[str, Any]
Admit = Callable[..., Obj]
Refusal = Callable[..., str]

PODS = [{"apiVersion": "v1", "kind": "Pod"}]
NOW = "2026-01-01T00:00:00Z"


def source(**spec: Any) -> Obj:
    return {
        "metadata": {"name": "s", "namespace": "ns"},
        "spec": {"sink": {"uri": "http://sink"}, "resources": PODS, **spec},
    }


def test_references_by_the_default_account_are_the_default(admit: Admit) -> None:
    spec = admit("ApiServerSource", source())["spec"]
    assert (spec["mode"], spec["serviceAccountName"]) == ("Reference", "default")


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ({"mode": "Half"}, "invalid value: Half: spec.mode"),
        ({"resources": []}, "missing field(s): spec.resources"),
        (
            {"resources": [{"apiVersion": "v1", "kind": "Pod"}] * 101},
            "Too many: 101: must have at most 100 items: spec.resources",
        ),
        ({"resources": [{"apiVersion": "a/b/c", "kind": "X"}]}, "invalid value: a/b/c: spec.resources[0].apiVersion"),
        ({"resources": [{"apiVersion": "v1", "kind": " "}]}, "missing field(s): spec.resources[0].kind"),
        ({"owner": {"apiVersion": "v1"}}, "missing field(s): spec.owner.kind"),
        ({"sink": {}}, "expected at least one, got none: spec.sink.ref, spec.sink.uri"),
        ({"filters": [{"cesql": "type = "}]}, "spec.filters"),
    ],
)
def test_what_cannot_work_is_refused_in_knatives_words(refusal: Refusal, spec: Obj, complaint: str) -> None:
    assert complaint in refusal("ApiServerSource", source(**spec))


def test_filters_can_be_switched_off(refusal: Refusal) -> None:
    features = {"new-apiserversource-filters": "disabled"}
    complaint = refusal("ApiServerSource", source(filters=[{"exact": {"type": "a"}}]), features=features)
    assert "Filters is not empty but the NewAPIServerFilters feature is disabled." in complaint


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ({"watching": True}, {"SinkProvided": "True", "Deployed": "True", "SufficientPermissions": "True"}),
        ({}, {"SinkProvided": "True", "Deployed": "Unknown", "SufficientPermissions": "True"}),
        ({"missing": "no"}, {"SinkProvided": "True", "Deployed": "Unknown", "SufficientPermissions": "False"}),
        ({"problem": "403"}, {"SinkProvided": "True", "Deployed": "False", "SufficientPermissions": "True"}),
        (
            {"sink": Unresolved("gone")},
            {"SinkProvided": "False", "Deployed": "Unknown", "SufficientPermissions": "Unknown"},
        ),
    ],
)
def test_the_status_says_what_was_found_out(seen: dict[str, Any], expected: dict[str, str]) -> None:
    observation = ApiServerObservation(**{"api_url": "https://api", "sink": ResolvedAddress("http://sink"), **seen})
    status = status_of(source(mode="Resource"), observation, NOW)
    found = {one["type"]: one["status"] for one in status["conditions"]}
    assert expected.items() <= found.items()
    if found["Ready"] == "True":
        assert [one["type"] for one in status["ceAttributes"]] == [
            "dev.knative.apiserver.resource.add",
            "dev.knative.apiserver.resource.delete",
            "dev.knative.apiserver.resource.update",
        ]
