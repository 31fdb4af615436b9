"""What `penstock verify` takes and prints."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from penstock.cli import app
from penstock.cli.verify import lines, since_of
from penstock.contract.routes import Route
from penstock.verification.report import KeptEvent, MissingEvent, RouteVerdict, VerifyReport

NOON = datetime(2026, 11, 17, 12, tzinfo=UTC)
ROUTE = Route("u", "Trigger", "default", "orders", "b", generation=3)

runner = CliRunner()


def test_everything_is_in_the_table_and_what_is_missing_below_it() -> None:
    orders = RouteVerdict("Trigger", "default", "orders", 1204, {"delivered": 1190, "dropped": 12, "lost": 2})
    audit = RouteVerdict(
        "Subscription", "shop", "audit", 3, {"waiting": 3}, unjudged=7, remark="judged from …", paused=True
    )
    found = [
        MissingEvent(orders, "lost", 0, 17, KeptEvent(NOON, "e17", "/shop", "order.placed")),
        MissingEvent(orders, "lost", 1, 4),
    ]
    report = VerifyReport(NOON - timedelta(hours=2), NOON, 1207, [orders, audit], found, ["the history is off"])
    assert list(lines(report)) == [
        " due  delivered  waiting  dropped  lost  route",
        "1204       1190        0       12     2  trigger/orders",
        "   3          0        3        0     0  subscription/audit (shop)",
        "",
        "subscription/audit (shop) is paused",
        "subscription/audit (shop): judged from …; 7 earlier events are not judged",
        "the history is off",
        "missing: 2 of 2",
        "  lost  2026-11-17 12:00:00.000  order.placed  e17  from /shop  trigger/orders, partition 0 offset 17",
        "  lost  trigger/orders, partition 1 offset 4; the event itself is no longer kept",
        "1,207 events accepted from 2026-11-17T10:00:00Z to 2026-11-17T12:00:00Z, 1,207 deliveries due to 2 routes: "
        "1,190 delivered, 12 given up by their routes' policy, 3 still to come, 2 LOST",
    ]


def test_where_there_is_nothing_it_is_said() -> None:
    nothing = VerifyReport(NOON, NOON, 0, [])
    assert list(lines(nothing)) == ["there is no route to verify, from 2026-11-17T12:00:00Z to 2026-11-17T12:00:00Z"]
    quiet = VerifyReport(NOON, NOON, 1, [RouteVerdict("Trigger", "default", "a", 1, {"delivered": 1})])
    assert list(lines(quiet))[-1].startswith("1 event accepted")
    assert list(lines(quiet))[-1].endswith("1 delivery due to 1 route: 1 delivered, none lost")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["broker/default"], "is not a Trigger or Subscription"),
        (["trigger/"], "Invalid name trigger/"),
        (["trigger/a", "--all-namespaces"], "--all-namespaces cannot be combined with routes"),
        (["-n", "a", "-A"], "--all-namespaces cannot be combined with routes"),
        (["--since", "yesterday"], "Invalid time 'yesterday' for --since"),
        (["--since", "1h", "--until", "2h"], "--until 2h is not after --since 1h"),
        ([], "No stack is running on the data folder"),
    ],
)
def test_what_cannot_be_answered_ends_with_2_and_never_looks_like_a_loss(
    arguments: list[str], text: str, tmp_path: Path
) -> None:
    ended = runner.invoke(app, ["verify", *arguments, "--data-dir", str(tmp_path)])
    assert (ended.exit_code, text in ended.output) == (2, True), ended.output


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({}, NOON),
        ({"generation": 4}, None),
        ({"uid": "another"}, None),
        ({"observedGeneration": 2}, None),
        ({"status": "Unknown"}, None),
        ({"type": "Ready"}, None),
    ],
)
def test_a_status_tells_since_when_a_trigger_is_in_force(changed: dict[str, Any], found: datetime | None) -> None:
    told = {
        "uid": "u",
        "generation": 3,
        "observedGeneration": 3,
        "type": "SubscriptionReady",
        "status": "True",
        "lastTransitionTime": "2026-11-17T12:00:00Z",
        **changed,
    }
    condition = {name: told[name] for name in ("type", "status", "lastTransitionTime")}
    obj = {
        "metadata": {name: told[name] for name in ("uid", "generation")},
        "status": {"observedGeneration": told["observedGeneration"], "conditions": [condition]},
    }
    assert since_of(obj, ROUTE) == found
    assert since_of({"metadata": obj["metadata"]}, ROUTE) is None
