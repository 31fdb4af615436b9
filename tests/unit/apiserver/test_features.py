"""Features without effect are warned of, never taken in silence."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.apiserver.cluster.eventing_admission import FeaturesAdmission
from penstock.apiserver.kinds.core_kinds import CORE_KINDS
from penstock.apiserver.verbs.admission import AdmissionRequest
from penstock.resources import features

CONFIG_MAPS = next(kind for kind in CORE_KINDS if kind.plural == "configmaps")


def warned(data: dict[str, Any], name: str = "config-features", namespace: str = "knative-eventing") -> list[str]:
    request = AdmissionRequest(CONFIG_MAPS, namespace, "someone", "UPDATE")
    FeaturesAdmission().validate({"metadata": {"name": name}, "data": data}, None, request)
    return request.warnings


def test_the_features_that_exist_from_the_start_raise_no_warning() -> None:
    assert warned(dict(features.DEFAULTS)) == []
    assert (
        warned({"_example": "anything", "delivery-timeout": "Disabled", "cross-namespace-event-links": "enabled"}) == []
    )


@pytest.mark.parametrize(
    ("feature", "value", "told"),
    [
        ("kreference-group", "enabled", 'feature "kreference-group" has no effect in penstock'),
        ("new-trigger-filters", "disabled", 'behaves as with "enabled"'),
        ("default-authorization-mode", "open", 'is "allow-same-namespace": "open" is not a mode'),
        ("telepathy", "enabled", 'feature "telepathy" is not known to penstock and has no effect'),
        ("transport-encryption", "maybe", 'feature "transport-encryption" is off: "maybe" is neither'),
        ("delivery-timeout", "maybe", 'feature "delivery-timeout" is off: "maybe" is neither'),
    ],
)
def test_what_has_no_effect_is_named(feature: str, value: str, told: str) -> None:
    (warning,) = warned({feature: value})
    assert told in warning


@pytest.mark.parametrize("mode", ["allow-all", "Deny-All", "Allow-Same-Namespace"])
def test_who_may_send_can_be_chosen(mode: str) -> None:
    assert warned({"authentication-oidc": "Enabled", "default-authorization-mode": mode}) == []


@pytest.mark.parametrize(
    ("value", "meant"),
    [("Strict", "strict"), (" permissive", "permissive"), ("disabled", "disabled"), ("x", "disabled")],
)
def test_transport_encryption_is_one_of_three(value: str, meant: str) -> None:
    assert features.transport({"transport-encryption": value}) == meant
    assert features.transport({}) == "disabled"
    assert (warned({"transport-encryption": value}) == []) == (value != "x")


def test_other_configmaps_are_left_alone() -> None:
    assert warned({"telepathy": "enabled"}, name="other") == []
    assert warned({"authentication-oidc": "enabled"}, namespace="default") == []
