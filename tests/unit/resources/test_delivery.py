"""Destinations and delivery options."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from penstock.resources.admission import AdmissionContext
from penstock.resources.delivery import DeliveryOptions, check_delivery, effective
from penstock.resources.destinations import check_destination, check_reference
from penstock.resources.field_errors import render

Context = Callable[..., AdmissionContext]
REF = {"apiVersion": "v1", "kind": "Service", "name": "s"}


@pytest.mark.parametrize(
    ("destination", "text"),
    [
        ({}, "expected at least one, got none: ref, uri"),
        (
            {"ref": REF, "uri": "http://a"},
            "Absolute URI is not allowed when Ref or [apiVersion, kind, name] is present: "
            "[apiVersion, kind, name], ref, uri",
        ),
        (
            {"uri": "/a"},
            "invalid value: Relative URI is not allowed when Ref and [apiVersion, kind, name] is absent: uri",
        ),
        ({"ref": {"name": "s"}}, "missing field(s): ref.apiVersion, ref.kind"),
        ({"ref": REF, "uri": "/a"}, ""),
        ({"ref": REF}, ""),
        ({"uri": "http://a"}, ""),
    ],
)
def test_destinations_are_checked(destination: dict[str, Any], text: str) -> None:
    assert render(check_destination(destination)) == text


def test_a_reference_into_another_namespace_is_named() -> None:
    text = render(check_reference({**REF, "namespace": "b"}, "a"))
    assert text == 'mismatched namespaces: namespace\nparent namespace: "a" does not match ref: "b"'


@pytest.mark.parametrize(
    ("delivery", "text"),
    [
        ({"retry": -1}, "invalid value: -1: retry"),
        ({"timeout": "PT0S"}, "invalid value: PT0S: timeout"),
        ({"timeout": "soon"}, "invalid value: soon: timeout"),
        ({"backoffPolicy": "fibonacci"}, "invalid value: fibonacci: backoffPolicy"),
        ({"backoffDelay": "2s"}, "invalid value: 2s: backoffDelay"),
        ({"backoffDelay": "-PT1S"}, "invalid value: -PT1S: backoffDelay"),
        ({"backoffMax": "PT0S"}, "invalid value: PT0S: backoffMax"),
        ({"backoffMax": "-PT1S"}, "invalid value: -PT1S: backoffMax"),
        ({"backoffMax": "1h"}, "invalid value: 1h: backoffMax"),
        ({"timeout": "-PT1S"}, "invalid value: -PT1S: timeout"),
        ({"format": "xml"}, "invalid value: xml: format"),
        ({"retryAfterMax": "-PT1S"}, "invalid value: -PT1S: retryAfterMax"),
        ({"deadLetterSink": {}}, "expected at least one, got none: deadLetterSink.ref, deadLetterSink.uri"),
        (
            {
                "retry": 0,
                "timeout": "PT1S",
                "backoffPolicy": "linear",
                "backoffDelay": "PT0.2S",
                "backoffMax": "PT0.1S",
                "format": "json",
                "retryAfterMax": "PT0S",
            },
            "",
        ),
    ],
)
def test_delivery_options_are_checked(context: Context, delivery: dict[str, Any], text: str) -> None:
    assert render(check_delivery(delivery, context())) == text


@pytest.mark.parametrize(
    ("feature", "field"),
    [
        ("delivery-timeout", "timeout"),
        ("delivery-retryafter", "retryAfterMax"),
        ("delivery-backoff-max", "backoffMax"),
    ],
)
def test_options_behind_a_disabled_feature_are_refused(context: Context, feature: str, field: str) -> None:
    ctx = context(features={feature: "Disabled"})
    assert render(check_delivery({field: "PT1S"}, ctx)) == f"must not set the field(s): {field}"


def test_any_option_replaces_the_inherited_ones_wholly() -> None:
    """If a Trigger specifies any delivery options, the Broker's MUST be ignored."""
    inherited = {"retry": 10, "deadLetterSink": {"uri": "http://d"}}
    assert effective({"retry": 1}, inherited) == {"retry": 1}
    assert effective(None, inherited) == inherited
    assert effective({}, inherited) == inherited
    assert effective(None, None) == {}


def test_options_are_read_in_seconds() -> None:
    spec = {"retry": 3, "backoffPolicy": "exponential", "backoffDelay": "PT0.5S", "timeout": "PT1M", "format": "json"}
    expected = DeliveryOptions(3, "exponential", 0.5, timeout=60, format="json")
    assert DeliveryOptions.read(spec) == expected
    assert DeliveryOptions.read({**spec, "backoffMax": "PT10M"}) == replace(expected, backoff_max=600)


def test_what_cannot_be_read_counts_as_unset() -> None:
    odd = {"retry": -2, "backoffPolicy": "?", "backoffDelay": "?", "backoffMax": "?", "format": "?"}
    assert DeliveryOptions.read(odd) == DeliveryOptions()


@pytest.mark.parametrize(
    ("delivery", "warned"),
    [({}, 0), ({"deadLetterSink": {"uri": "http://a"}}, 1), ({"deadLetterSink": {"uri": "http://a"}, "retry": 1}, 0)],
    ids=["no sink", "a sink alone", "a sink and retries"],
)
def test_a_dead_letter_sink_without_retries_is_warned_of(
    context: Context, delivery: dict[str, Any], warned: int
) -> None:
    ctx = context()
    assert check_delivery(delivery, ctx) == []
    assert len(ctx.warnings) == warned
