"""From the words of `penstock replay`, `redrive` and `deadletters` to what is asked for, and how it is shown."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from typer.testing import CliRunner

from penstock.cli import app
from penstock.cli.dead_letters import as_data, counts_table, each_table, filter_of
from penstock.operations.replays import ReplayOptions, ReplaySubject, is_over, line_of, replay_of, succeeded, warning_of
from penstock.runtime.errors import UserError


@pytest.mark.parametrize(
    ("text", "kind", "name"),
    [
        ("trigger/orders", "Trigger", "orders"),
        ("orders", "Trigger", "orders"),
        ("sub/s", "Subscription", "s"),
        ("Broker/default", "Broker", "default"),
        ("imc/c", "InMemoryChannel", "c"),
    ],
)
def test_what_is_meant_by_a_name(text: str, kind: str, name: str) -> None:
    assert ReplaySubject.read(text) == ReplaySubject(kind, name)


@pytest.mark.parametrize("text", ["pod/x", "trigger/", "/x"])
def test_what_cannot_be_replayed_is_told(text: str) -> None:
    with pytest.raises(UserError) as told:
        ReplaySubject.read(text)
    assert told.value.exit_code == 2


def test_a_replay_has_what_was_asked_for_and_nothing_else() -> None:
    wishes = ReplayOptions("2h", None, ("a",), ("type=order",), None, 100.0, dry_run=True)
    assert replay_of(ReplaySubject("Trigger", "orders"), wishes) == {
        "apiVersion": "penstock.dev/v1alpha1",
        "kind": "Replay",
        "metadata": {"generateName": "orders-"},
        "spec": {
            "target": {"kind": "Trigger", "name": "orders"},
            "from": "2h",
            "eventIds": ["a"],
            "filters": [{"exact": {"type": "order"}}],
            "rate": 100.0,
            "dryRun": True,
        },
    }
    to_sink = replay_of(ReplaySubject("Broker", "b"), ReplayOptions(sink="http://s"), "mine")
    assert to_sink["metadata"] == {"name": "mine"}
    assert to_sink["spec"] == {"source": {"kind": "Broker", "name": "b"}, "sink": {"uri": "http://s"}}
    redriven = replay_of(ReplaySubject("Trigger", "t"), ReplayOptions(dead_letters=True, reason="500"))
    assert redriven["spec"] == {"target": {"kind": "Trigger", "name": "t"}, "deadLetters": True, "reason": "500"}


@pytest.mark.parametrize(
    ("place", "wishes"),
    [
        (ReplaySubject("Trigger", "t"), ReplayOptions(sink="http://s")),
        (ReplaySubject("Broker", "b"), ReplayOptions()),
        (ReplaySubject("Trigger", "t"), ReplayOptions(attributes=("type",))),
        (ReplaySubject("Trigger", "t"), ReplayOptions(since="soon")),
        (ReplaySubject("Trigger", "t"), ReplayOptions(since="1h", until="2h")),
    ],
)
def test_wishes_that_do_not_go_together_are_told(place: ReplaySubject, wishes: ReplayOptions) -> None:
    with pytest.raises(UserError) as told:
        replay_of(place, wishes)
    assert told.value.exit_code == 2


def replay(*conditions: dict[str, str], **status: Any) -> dict[str, Any]:
    return {"spec": {}, "status": {"conditions": list(conditions), **status}}


def test_progress_in_a_line() -> None:
    unknown = {"type": "Succeeded", "status": "Unknown", "reason": "TargetNotFound", "message": "no t"}
    assert line_of({"spec": {}}) == "pending"
    assert line_of(replay(unknown)) == "pending: no t"
    running = replay(startTime="now", counted=5, sent=3, failed=1, progress="40%")
    assert line_of(running) == "5 found, 3 sent, 1 failed, 40% scanned"
    assert not is_over(running)
    done = replay({"type": "Succeeded", "status": "True"}, completionTime="now", counted=5, sent=5)
    assert (line_of(done), succeeded(done)[0]) == ("5 found, 5 sent: done", "True")
    dry = {**done, "spec": {"dryRun": True}}
    assert line_of(dry) == "5 found: done"
    failed = {"type": "Succeeded", "status": "False", "reason": "TargetGone", "message": "t went"}
    lost = {"type": "EventsRetained", "status": "False", "message": "3 are gone"}
    ended = replay(failed, lost, completionTime="now")
    assert line_of(ended) == "0 found, 0 sent: TargetGone: t went"
    assert (warning_of(ended), warning_of(done)) == ("3 are gone", None)


@dataclass(frozen=True)
class Given:
    """As the history answers."""

    route: str = "uid"
    kind: str | None = "Trigger"
    namespace: str | None = "ns"
    name: str | None = "t"
    reason: str | None = "HTTP status 500"
    outcome: str = "dropped"
    count: int = 3
    first: datetime = datetime(2026, 11, 1, tzinfo=UTC)
    last: datetime = datetime(2026, 11, 2, tzinfo=UTC)
    at: datetime = datetime(2026, 11, 2, tzinfo=UTC)
    type: str = "order"
    id: str = "e1"
    attempts: int = 4


def test_what_was_given_up_is_shown() -> None:
    assert counts_table([Given()]) == [
        "EVENTS  OUTCOME  FIRST (UTC)  LAST (UTC)   ROUTE",
        "     3  dropped  11-01 00:00  11-02 00:00  trigger/t (ns)",
        "    HTTP status 500",
    ]
    assert counts_table([Given(name=None, reason=None)])[1:] == ["     3  dropped  11-01 00:00  11-02 00:00  uid"]
    assert each_table([Given(namespace="default")])[1:] == [
        "11-02 00:00      4  dropped  trigger/t",
        "    order  e1",
        "    HTTP status 500",
    ]
    assert as_data(Given())["first"] == "2026-11-01T00:00:00Z"


def test_the_tables_fit_80_columns() -> None:
    one = Given(
        namespace="payments",
        name="order-totals",
        outcome="deadletter",
        type="com.example.order.created",
        id="0c5f3c0e-7c8e-4a5b-9b0a-2f4f6f0a1b2c",
        reason="connection refused by 10.0.0.17:8080",
        count=1_000_000,
    )
    assert max(map(len, counts_table([one]))) <= 80
    assert max(map(len, each_table([one]))) <= 80


def test_which_dead_letters_are_asked_for() -> None:
    wanted = filter_of("trigger/t", None, "1h", None, reason="500", limit=7, now=datetime.fromtimestamp(7200, UTC))
    assert (wanted.route.kind, wanted.route.namespace, wanted.route.name) == ("Trigger", "default", "t")
    assert (wanted.since, wanted.until) == (datetime(1970, 1, 1, 1, tzinfo=UTC), None)
    assert (wanted.reason, wanted.limit) == ("500", 7)
    assert (
        filter_of(None, None, None, None, reason=None, limit=7, now=datetime.fromtimestamp(0, UTC)).route.name is None
    )
    with pytest.raises(UserError, match="'soon'"):
        filter_of(None, None, "soon", None, reason=None, limit=7, now=datetime.fromtimestamp(0, UTC))


@pytest.mark.parametrize("words", [("replay", "pod/x"), ("redrive", "broker/b"), ("deadletters", "--since", "soon")])
def test_wrong_words_end_with_2(words: tuple[str, ...]) -> None:
    assert CliRunner().invoke(app, words).exit_code == 2
