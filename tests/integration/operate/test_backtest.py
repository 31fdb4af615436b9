"""On a whole stack: a changed Trigger is tried on the events that have come, by the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.running import Stack

NAMESPACE = "backtest"


def trigger(wanted: str) -> dict[str, Any]:
    return {
        "apiVersion": "eventing.knative.dev/v1",
        "kind": "Trigger",
        "metadata": {"name": "orders", "namespace": NAMESPACE},
        "spec": {
            "broker": "default",
            "filter": {"attributes": {"type": wanted}},
            "subscriber": {"uri": "http://127.0.0.1:9/"},
            "delivery": {"retry": 0},
        },
    }


@pytest.fixture
def past(stack: Stack) -> None:
    """A Broker with one Trigger that gets one of its two events."""
    stack.kubectl("create", "namespace", NAMESPACE)
    stack.penstock("create", "broker", "--namespace", NAMESPACE)
    stack.apply(json.dumps(trigger("order.placed")))
    stack.kubectl("-n", NAMESPACE, "wait", "--for=condition=Ready", "trigger/orders", "--timeout=120s", timeout=140)
    for kind in ("order.placed", "order.paid"):
        stack.penstock("send", "{}", "--type", kind, "--namespace", NAMESPACE)


@pytest.mark.usefixtures("past")
def test_a_changed_filter_is_tried_on_the_events_of_the_last_hour(stack: Stack, tmp_path: Path) -> None:
    changed = tmp_path / "trigger.yaml"
    changed.write_text(json.dumps(trigger("order.paid")))
    expected = [word for each in ("events=2", "added=1", "removed=1") for word in ("--expect", each)]
    said = json.loads(stack.penstock("backtest", "-f", str(changed), "--since", "1h", "--json", *expected))
    [result] = said["triggers"]
    assert [sample["type"] for sample in result["samples"]["added"]] == ["order.paid"]
    assert [sample["type"] for sample in result["samples"]["removed"]] == ["order.placed"]
