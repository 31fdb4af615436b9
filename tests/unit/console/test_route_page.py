"""A route's page: what it shows, and the changes that can be made on it."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.console.map.graph import route_node
from penstock.console.route_page import event_summaries, replay_options, replay_values, text_of
from penstock.console.routes_page import subscriber_of
from penstock.operations.replays import ReplayOptions
from penstock.resources.delivery import PAUSED
from penstock.runtime.errors import UserError
from tests.unit.console.console_client import MakeClient
from tests.unit.console.known_api import KnownApi, broker, trigger

PAGE = "/routes/trigger/default/orders"


def test_the_page_shows_conditions_yaml_and_why_it_fails(client_of: MakeClient) -> None:
    api = KnownApi(broker(), trigger("orders", failing="connection refused"))
    page = client_of(api).get(PAGE).text
    assert "connection refused" in page
    assert "kind: Trigger" in page
    assert f'action="{PAGE}/pause"' in page
    assert "are dropped" in page, "there is no dead letter sink"


def test_a_route_that_is_not_there_is_said_to_be_missing(client_of: MakeClient) -> None:
    client = client_of(KnownApi())
    missing = client.get(PAGE)
    assert missing.status_code == 404
    assert "Trigger default/orders does not exist" in missing.text
    assert client.get("/routes/broker/default/x").status_code == 404


def test_pausing_and_resuming_change_the_annotation(client_of: MakeClient) -> None:
    api = KnownApi(trigger("orders"))
    client = client_of(api)
    answer = client.post(f"{PAGE}/pause")
    assert (answer.status_code, answer.headers["location"]) == (303, PAGE)
    assert client.post(f"{PAGE}/resume").status_code == 303
    assert api.annotated == [("orders", {PAUSED: "true"}), ("orders", {PAUSED: None})]


def test_nothing_is_changed_from_elsewhere_or_by_looking(client_of: MakeClient) -> None:
    api = KnownApi(trigger("orders"))
    client = client_of(api)
    assert client.post(f"{PAGE}/pause", headers={"sec-fetch-site": "cross-site"}).status_code == 403
    assert client.get(f"{PAGE}/pause").status_code == 405
    assert api.annotated == []


def test_a_replay_is_made_of_the_form(client_of: MakeClient) -> None:
    api = KnownApi(trigger("orders"))
    client = client_of(api)
    assert client.post(f"{PAGE}/replay", data={"since": "2h", "rate": "50", "what": "dead_letters"}).status_code == 303
    (made,) = api.created
    assert made["spec"] == {
        "target": {"kind": "Trigger", "name": "orders"},
        "from": "2h",
        "deadLetters": True,
        "rate": 50.0,
    }
    refused = client.post(f"{PAGE}/replay", data={"rate": "many"})
    assert refused.status_code == 409
    assert "Invalid rate many" in refused.text


def test_the_fields_of_a_replay_that_are_empty_mean_nothing() -> None:
    assert replay_options({"since": " ", "rate": "", "dry_run": "on"}) == ReplayOptions(dry_run=True)
    with pytest.raises(UserError, match="Invalid rate x"):
        replay_options({"rate": "x"})


def test_replays_tell_how_far_they_are(client_of: MakeClient) -> None:
    running = replay("one", {"startTime": "2026-11-17T10:00:00Z", "counted": 8, "sent": 4, "progress": "40%"})
    over = replay("two", {"completionTime": "x", "conditions": [{"type": "Succeeded", "status": "True"}]})
    assert [replay_values(running)[key] for key in ("percent", "over", "state")] == [40.0, False, "starting"]
    assert [replay_values(over)[key] for key in ("percent", "over", "state")] == [100.0, True, "ready"]
    shown = client_of(KnownApi(trigger("orders"), running, over)).get(f"{PAGE}/replays").text
    assert 'value="40.0"' in shown
    assert "data-running" in shown


def replay(name: str, status: dict[str, Any]) -> dict[str, Any]:
    spec = {"target": {"kind": "Trigger", "name": "orders"}}
    return {"kind": "Replay", "metadata": {"name": name, "namespace": "default"}, "spec": spec, "status": status}


def test_what_happened_is_grouped_by_reason() -> None:
    def event(reason: str, at: str, count: int, about: str = "orders", kind: str = "Warning") -> dict[str, Any]:
        involved = {"kind": "Trigger", "name": about}
        return {
            "reason": reason,
            "type": kind,
            "count": count,
            "lastTimestamp": at,
            "message": at,
            "involvedObject": involved,
        }

    answer = {
        "items": [
            event("DeliveryFailed", "2026-11-17T10:00:02Z", 3),
            event("DeliveryRecovered", "2026-11-17T10:00:03Z", 1, kind="Normal"),
            event("DeliveryFailed", "2026-11-17T10:00:01Z", 2),
            event("DeliveryFailed", "2026-11-17T10:00:09Z", 7, about="other"),
        ]
    }
    found = event_summaries(answer, "Trigger", "orders")
    assert [(one.reason, one.count, one.is_bad) for one in found] == [
        ("DeliveryRecovered", 1, False),
        ("DeliveryFailed", 5, True),
    ]
    assert found[1].message == "2026-11-17T10:00:02Z", "the newest"
    assert event_summaries(None, "Trigger", "orders") == []


def test_yaml_leaves_out_what_nobody_reads() -> None:
    obj = trigger("orders", metadata={"managedFields": [{"manager": "kubectl"}]})
    assert "managedFields" not in text_of(obj)


def test_points_of_a_route_that_did_nothing_are_none(client_of: MakeClient) -> None:
    assert client_of(KnownApi(trigger("orders"))).get(f"{PAGE}/points").json() == {"points": [], "now": None}


def test_the_password_of_a_url_is_on_no_page() -> None:
    uri = "https://user:p4ss@host/path"
    obj: dict[str, Any] = {
        "kind": "Trigger",
        "metadata": {"name": "t", "namespace": "ns", "annotations": {"applied": f"{uri} {uri}"}},
        "spec": {"subscriber": {"uri": uri}, "delivery": {"deadLetterSink": {"uri": uri}}},
        "status": {"subscriberUri": uri, "deadLetterSinkUri": uri},
    }
    shown = [text_of(obj), str(route_node(obj)), subscriber_of(obj["spec"], obj["status"], "Trigger")]
    assert not [text for text in shown if "p4ss" in text or "***@host" not in text]
