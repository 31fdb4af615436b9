"""The same YAML gets the same answers, from the embedded API and from a real one with penstock installed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.on_kubernetes.both_apis import Asked
from tests.on_kubernetes.scenarios import DIFFERENT, SCENARIOS
from tests.waiting import eventually

DIFFERENCES = Path(__file__).parents[2] / "docs" / "knative-users.md"
AGE = re.compile(r"\b\d+(s|m|m\d+s)\b")


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_both_answer_the_same(scenario: str, real: Asked, embedded: Asked) -> None:
    for step in SCENARIOS[scenario]:
        assert embedded.ask(step) == real.ask(step), str(step)


@pytest.mark.parametrize("difference", DIFFERENT)
def test_what_is_known_to_differ_does_and_is_written_down(difference: str, real: Asked, embedded: Asked) -> None:
    assert difference in DIFFERENCES.read_text().replace("\n  ", " ")
    answers = [(embedded.ask(step), real.ask(step)) for step in DIFFERENT[difference]]
    assert any(here != there for here, there in answers), "no longer different: say so in docs/knative-users.md"


TRIGGER = """
apiVersion: eventing.knative.dev/v1
kind: Trigger
metadata: {name: orders, namespace: default}
spec:
  broker: shop
  filters: [{cesql: "type = 'order'"}]
  subscriber: {uri: "http://sink.example/"}
"""
BROKER = """
apiVersion: eventing.knative.dev/v1
kind: Broker
metadata: {name: shop, namespace: default}
"""
COMMANDS: list[tuple[list[str], str | None]] = [
    (["apply", "-f", "-"], BROKER),
    (["apply", "-f", "-"], BROKER),
    (["apply", "-f", "-"], TRIGGER),
    (["apply", "-f", "-"], TRIGGER.replace("type = 'order'", "type =")),
    (["apply", "-f", "-"], TRIGGER.replace("broker: shop", "broker: other")),
    (["apply", "-f", "-"], BROKER.replace("Broker", "Borker")),
    (["apply", "--server-side", "-f", "-"], BROKER + "spec: {delivery: {retry: 2}}"),
    (["get", "brokers"], None),
    (["get", "broker,trigger", "-o", "name"], None),
    (["get", "triggers.eventing.knative.dev", "orders", "-o", "jsonpath={.spec}"], None),
    (["get", "sub,imc,ch"], None),
    (["explain", "broker.spec.delivery.backoffPolicy"], None),
    (["patch", "broker", "shop", "--type=merge", "-p", '{"spec":{"delivery":{"retry":-1}}}'], None),
    (["annotate", "broker", "shop", "a=b"], None),
    (["label", "trigger", "orders", "no good=x"], None),
    (["auth", "can-i", "create", "brokers"], None),
    (["delete", "broker/shop", "trigger/orders"], None),
    (["get", "broker", "shop"], None),
]


def test_kubectl_prints_the_same(real: Asked, embedded: Asked) -> None:
    for arguments, stdin in COMMANDS:
        here, there = (AGE.sub("AGE", one.kubectl(*arguments, stdin=stdin)) for one in (embedded, real))
        assert here == there, " ".join(arguments)


LINK = """
apiVersion: eventing.knative.dev/v1
kind: Trigger
metadata: {name: payments, namespace: shop}
spec:
  brokerRef: {apiVersion: eventing.knative.dev/v1, kind: Broker, name: payments, namespace: bank}
  subscriber: {uri: "http://sink.example/"}
"""
FEATURE = ("patch", "configmap", "config-features", "-n", "knative-eventing", "--type=merge", "-p")


def test_events_of_another_namespace_are_for_the_same_users(real: Asked, embedded: Asked) -> None:
    def both(*arguments: str, stdin: str | None = None) -> str:
        here, there = (one.kubectl(*arguments, stdin=stdin) for one in (embedded, real))
        return here if here == there else f"embedded: {here}\nreal: {there}"

    as_jane = ("--as", "jane", "apply", "-f", "-")
    both(*FEATURE, '{"data":{"cross-namespace-event-links":"enabled"}}')
    try:
        for namespace in ("shop", "bank"):
            both("create", "namespace", namespace)
        for namespace, role in (("shop", "knative-eventing-namespaced-admin"), ("bank", "broker-subscriber")):
            if namespace == "bank":
                # The webhook hears of the feature a moment after it was enabled.
                eventually(lambda: "is not authorized" in both(*as_jane, stdin=LINK), 30)
                refused = both(*as_jane, stdin=LINK)
                assert "user jane is not authorized to get target resource in namespace: bank" in refused
                assert "embedded:" not in refused
            both("create", "rolebinding", "jane", "--clusterrole", role, "--user", "jane", "-n", namespace)
        assert both(*as_jane, stdin=LINK) == "trigger.eventing.knative.dev/payments created\n"
    finally:
        both("delete", "namespace", "shop", "bank", "--wait=false")
        both(*FEATURE, '{"data":{"cross-namespace-event-links":"disabled"}}')
