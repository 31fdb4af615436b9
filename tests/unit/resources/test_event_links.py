"""Triggers and Subscriptions that take events of another namespace: only for users who may, by Knative's rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.resources.admission import AccessUnknown, EventOrigin

Obj = dict[str, Any]
DENIED = 'admission webhook "validation.webhook.eventing.knative.dev" denied the request: validation failed: '
FEATURE = {"cross-namespace-event-links": "enabled"}
SINK = {"uri": "http://sink"}
ANNOTATION = "penstock.dev/start-from"


def trigger(**ref: str) -> Obj:
    broker = {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "name": "payments", "namespace": "bank", **ref}
    spec = {"brokerRef": broker, "subscriber": SINK}
    return {"apiVersion": "eventing.knative.dev/v1", "kind": "Trigger", "metadata": {"name": "t"}, "spec": spec}


def subscription(kind: str = "Channel") -> Obj:
    channel = {"apiVersion": "messaging.knative.dev/v1", "kind": kind, "name": "payments", "namespace": "bank"}
    spec = {"channel": channel, "subscriber": SINK}
    return {"apiVersion": "messaging.knative.dev/v1", "kind": "Subscription", "metadata": {"name": "s"}, "spec": spec}


class Rights:
    """What the user may subscribe to; remembers what was asked."""

    def __init__(self, *granted: EventOrigin) -> None:
        self.granted, self.asked = granted, list[EventOrigin]()

    def __call__(self, origin: EventOrigin) -> bool:
        self.asked.append(origin)
        return origin in self.granted


BROKER = EventOrigin("eventing.knative.dev", "brokers", "bank", "payments")
CHANNEL = EventOrigin("messaging.knative.dev", "channels", "bank", "payments")
IN_MEMORY_CHANNEL = EventOrigin("messaging.knative.dev", "inmemorychannels", "bank", "payments")
LINKS = [
    (trigger(), BROKER, "Broker"),
    (subscription(), CHANNEL, "Channel"),
    (subscription("InMemoryChannel"), IN_MEMORY_CHANNEL, "InMemoryChannel"),
]
links = pytest.mark.parametrize(
    ("obj", "origin", "kind"), LINKS, ids=lambda value: value if isinstance(value, str) else ""
)


@links
def test_a_user_without_the_right_is_told_so_as_by_knative(
    refusal: Callable[..., str], obj: Obj, origin: EventOrigin, kind: str
) -> None:
    rights = Rights()
    text = refusal(obj["kind"], obj, features=FEATURE, may_subscribe=rights)
    assert (
        text == f"{DENIED}user jane is not authorized to get target resource in namespace: bank: spec.{kind}Namespace"
    )
    assert rights.asked == [origin]


@links
def test_a_user_with_the_right_may(admit: Callable[..., Obj], obj: Obj, origin: EventOrigin, kind: str) -> None:
    assert admit(obj["kind"], obj, features=FEATURE, may_subscribe=Rights(origin))


@links
def test_nothing_is_asked_about_the_own_namespace(
    admit: Callable[..., Obj], obj: Obj, origin: EventOrigin, kind: str
) -> None:
    rights = Rights()
    assert admit(obj["kind"], obj, features=FEATURE, namespace="bank", may_subscribe=rights)
    assert rights.asked == []


def test_what_is_read_is_asked_about_whatever_kind_the_reference_names(refusal: Callable[..., str]) -> None:
    rights = Rights(EventOrigin("", "secrets", "bank", "payments"))
    text = refusal("Trigger", trigger(apiVersion="v1", kind="Secret"), features=FEATURE, may_subscribe=rights)
    assert "is not authorized" in text
    assert rights.asked == [BROKER]


@links
def test_every_change_of_where_events_go_or_from_when_on_is_asked_about(
    admit: Callable[..., Obj], refusal: Callable[..., str], obj: Obj, origin: EventOrigin, kind: str
) -> None:
    stored = admit(obj["kind"], obj, features=FEATURE, may_subscribe=Rights(origin))
    elsewhere = {**stored, "spec": {**stored["spec"], "subscriber": {"uri": "http://mine"}}}
    annotations = {**stored["metadata"]["annotations"], ANNOTATION: "earliest"}
    from_the_start = {**stored, "metadata": {**stored["metadata"], "annotations": annotations}}
    for changed in (elsewhere, from_the_start):
        text = refusal(obj["kind"], changed, stored, features=FEATURE, may_subscribe=Rights())
        assert "is not authorized" in text


@links
def test_labels_owners_and_finalizers_may_be_changed_by_a_cluster_itself(
    admit: Callable[..., Obj], obj: Obj, origin: EventOrigin, kind: str
) -> None:
    stored = admit(obj["kind"], obj, features=FEATURE, may_subscribe=Rights(origin))
    released = {**stored, "metadata": {**stored["metadata"], "finalizers": [], "labels": {"team": "a"}}}
    assert admit(obj["kind"], released, stored, features=FEATURE, may_subscribe=Rights())


@links
def test_nothing_is_stored_while_the_right_cannot_be_asked_for(
    refusal: Callable[..., str], obj: Obj, origin: EventOrigin, kind: str
) -> None:
    def away(_: EventOrigin) -> bool:
        raise AccessUnknown("connection refused")

    text = refusal(obj["kind"], obj, features=FEATURE, may_subscribe=away)
    assert text == (
        f"{DENIED}failed to make authorization request to see if user can subscribe to resources in namespace: "
        f"connection refused: spec.{kind}Namespace"
    )
