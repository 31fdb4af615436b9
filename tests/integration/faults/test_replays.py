"""Replays on a whole stack: while live events flow, over kills, and for Triggers that ask for the past."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from penstock.contract import topics
from penstock.engine.history.progress_file import request_flush
from penstock.history.reader.history import History
from penstock.kafka.ranges import RangeReader
from tests.integration.faults.ground import RECOVERY_SECONDS, TRIGGER, Ground, process
from tests.integration.faults.producer import Producer, Subscriber
from tests.running import Stack, kafka_access, read_to_end
from tests.waiting import eventually
from tools.chaos.plan import DISPATCHER_WORKER

pytestmark = pytest.mark.long


def apply_replay(stack: Stack, name: str, spec: dict[str, Any]) -> None:
    stack.apply(
        json.dumps({"apiVersion": "penstock.dev/v1alpha1", "kind": "Replay", "metadata": {"name": name}, "spec": spec})
    )


def status(stack: Stack, name: str) -> dict[str, Any]:
    shown = stack.kubectl("get", "replay", name, "-o", "json", check=False)
    found: dict[str, Any] = json.loads(shown).get("status") or {} if shown else {}
    return found


def succeeded(stack: Stack, name: str) -> tuple[str, str] | None:
    found = [one for one in status(stack, name).get("conditions") or [] if one["type"] == "Succeeded"]
    return (found[0]["status"], found[0].get("reason", "")) if found else None


def sent(ground: Ground, count: int) -> set[str]:
    """So many events, or some more, that were sent and have arrived."""
    producer = Producer(ground.url, pause=0.01)
    producer.wait_for(count)
    producer.stop()
    ground.settle(producer)
    return producer.accepted


def test_a_replay_runs_beside_live_events_and_over_kills(ground: Ground) -> None:
    stack = ground.stack
    replayed = Subscriber()
    began = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    ids = sent(ground, 600)
    sink = {"source": {"kind": "Broker", "name": "faults"}, "sink": {"uri": replayed.url}}
    apply_replay(stack, "beside", {**sink, "from": began, "rate": 40})
    eventually(lambda: len(replayed.received) > 20, RECOVERY_SECONDS)
    live = Producer(ground.url)
    try:
        for victim, component in ((DISPATCHER_WORKER, None), ("control", "control")):
            killed = process(stack, victim)
            killed.kill()
            if component is not None:
                process(stack, component, but=killed.pid)
    finally:
        live.stop()
    ground.settle(live)
    eventually(lambda: succeeded(stack, "beside") == ("True", ""), RECOVERY_SECONDS)
    found = status(stack, "beside")
    assert ids <= replayed.received.keys()
    assert (found["counted"], found["sent"], found["failed"]) == (len(replayed.received), len(replayed.received), 0)
    again = sum(count - 1 for count in replayed.received.values())
    print(f"{len(ids)} replayed, {again} arrived again; {found}")
    stack.kubectl("delete", "replay", "beside")
    replayed.close()


def test_a_trigger_that_asks_for_the_past_gets_it_also_when_the_pipeline_is_killed_meanwhile(ground: Ground) -> None:
    stack = ground.stack
    ids = sent(ground, 300)
    late = Subscriber()
    past = "metadata: {{name: {name}, annotations: {{penstock.dev/start-from: PT10M}}}}"
    manifest = TRIGGER.replace("metadata: {{name: {name}}}", past)
    stack.apply(manifest.format(name="late", url=late.url))
    process(stack, "pipeline").kill()
    eventually(lambda: ids <= late.received.keys(), RECOVERY_SECONDS)
    stack.kubectl("wait", "--for=condition=Ready", "trigger/late", "--timeout=120s", timeout=130)
    stack.kubectl("delete", "trigger", "late")
    late.close()


def forgotten(stack: Stack) -> None:
    """What has come so far is in the history's table, and Kafka has it no longer."""
    settings = stack.settings
    reader = RangeReader(settings)
    retained = reader.retained(topics.EVENTS)
    reader.close()
    request_flush(settings)

    def written() -> bool:
        with History(settings) as history:
            positions = history.state()[0].positions
        return all(positions.get(number, 0) >= kept.end for number, kept in retained.items())

    eventually(written, RECOVERY_SECONDS, every=1)
    admin = AdminClient(kafka_access(settings))
    places = [TopicPartition(topics.EVENTS, number, kept.end) for number, kept in retained.items()]
    for removed in admin.delete_records(places).values():
        removed.result(30)


def test_a_trigger_that_asks_for_the_past_gets_what_only_the_table_has(ground: Ground) -> None:
    stack = ground.stack
    old = sent(ground, 200)
    forgotten(stack)
    recent = sent(ground, 100)
    live, late = Producer(ground.url), Subscriber()
    past = "metadata: {{name: {name}, annotations: {{penstock.dev/start-from: earliest}}}}"
    manifest = TRIGGER.replace("metadata: {{name: {name}}}", past)
    try:
        stack.apply(manifest.format(name="oldest", url=late.url))
        eventually(lambda: len(late.received) > len(old) / 2, RECOVERY_SECONDS)
        for victim in (DISPATCHER_WORKER, "control"):
            process(stack, victim).kill()
        stack.kubectl("wait", "--for=condition=PastDelivered", "trigger/oldest", "--timeout=180s", timeout=190)
    finally:
        live.stop()
    ground.settle(live)
    eventually(lambda: old | recent | live.accepted <= late.received.keys(), RECOVERY_SECONDS)
    conditions = json.loads(stack.kubectl("get", "trigger", "oldest", "-o", "json"))["status"]["conditions"]
    told = next(one for one in conditions if one["type"] == "PastDelivered")
    assert told["reason"] == "Delivered"
    eventually(lambda: '"past_of"' not in routes_published(stack), RECOVERY_SECONDS)
    again = sum(count - 1 for count in late.received.values())
    print(f"{len(old)} from the table, {len(recent)} and more from Kafka, {again} arrived again; {told['message']}")
    stack.kubectl("delete", "trigger", "oldest")
    late.close()


def routes_published(stack: Stack) -> str:
    """The newest records of `penstock.routes`."""
    newest: dict[bytes, bytes] = {}
    for message in read_to_end(stack.settings, topics.ROUTES):
        newest[bytes(message.key() or b"")] = bytes(message.value() or b"")
    return b"\n".join(newest.values()).decode()


def command(ground: Ground, *words: str) -> str:
    """Runs `penstock` against the stack."""
    words = (*words, "--data-dir", str(ground.stack.settings.data_dir))
    ran = subprocess.run(
        [sys.executable, "-m", "penstock.cli", *words],
        capture_output=True,
        text=True,
        timeout=RECOVERY_SECONDS,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_what_was_given_up_is_listed_and_delivered_once_more(ground: Ground) -> None:
    stack, failing = ground.stack, Subscriber()
    failing.status = 418
    stack.apply(TRIGGER.format(name="failing", url=failing.url))
    stack.kubectl("wait", "--for=condition=Ready", "trigger/failing", "--timeout=120s", timeout=130)
    ids = sent(ground, 100)
    eventually(lambda: ids <= failing.received.keys(), RECOVERY_SECONDS)
    ours = ("deadletters", "trigger/failing", "--json")
    eventually(lambda: [one["count"] for one in json.loads(command(ground, *ours))] == [len(ids)], RECOVERY_SECONDS)
    assert "HTTP status 418" in command(ground, "deadletters", "--since", "1h")
    failing.status = 202
    failing.received.clear()
    counted = command(ground, "redrive", "trigger/failing", "--reason", "418", "--dry-run", "--watch")
    assert f"{len(ids)} found: done" in counted
    shown = command(ground, "redrive", "trigger/failing", "--reason", "418", "--watch")
    assert f"{len(ids)} found, {len(ids)} sent: done" in shown
    assert failing.received.keys() == ids
    again = json.loads(command(ground, "replay", "failing", "--since", "10m", "--dry-run", "--watch", "--json"))
    assert again["status"]["counted"] >= len(ids)
    stack.kubectl("delete", "trigger", "failing")
    stack.kubectl("delete", "replay", "--all")
    failing.close()


def test_what_makes_no_sense_is_told(ground: Ground) -> None:
    stack = ground.stack
    target = {"target": {"kind": "Trigger", "name": "faults"}}
    apply_replay(stack, "future", {**target, "from": "2999-01-01T00:00:00Z"})
    apply_replay(stack, "nobody", {"target": {"kind": "Trigger", "name": "nobody"}})
    apply_replay(stack, "counts", {**target, "dryRun": True})
    eventually(lambda: succeeded(stack, "future") == ("False", "WindowInFuture"))
    eventually(lambda: succeeded(stack, "nobody") == ("Unknown", "TargetNotFound"))
    eventually(lambda: succeeded(stack, "counts") == ("True", ""))
    assert status(stack, "counts")["sent"] == 0
    stack.kubectl("delete", "replay", "future", "nobody", "counts")
