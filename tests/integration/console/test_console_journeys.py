"""Journeys of an operator through the console, in a real Chromium, on a whole stack."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest
from console_journey import Journey, Subscriber, manifest

from running import Stack, eventually

NAMESPACE = "journeys"


@pytest.fixture(scope="module")
def subscriber(stack: Stack) -> Iterator[Subscriber]:
    """A Broker, a Trigger for orders, one for nothing that comes, and the subscriber of both."""
    one = Subscriber()
    stack.kubectl("create", "namespace", NAMESPACE)
    stack.apply(manifest("Broker", "shop", NAMESPACE, {}))
    to = {"broker": "shop", "subscriber": {"uri": one.url}, "delivery": {"retry": 1, "backoffDelay": "PT0.2S"}}
    stack.apply(manifest("Trigger", "orders", NAMESPACE, {**to, "filters": [{"prefix": {"type": "order"}}]}))
    stack.apply(manifest("Trigger", "invoices", NAMESPACE, {**to, "filters": [{"exact": {"type": "invoice"}}]}))
    for what in ("broker/shop", "trigger/orders", "trigger/invoices"):
        stack.kubectl("-n", NAMESPACE, "wait", "--for=condition=Ready", what, "--timeout=180s", timeout=200)
    yield one
    one.close()


def send(stack: Stack, ident: str, kind: str = "order.created", count: int = 1, rate: float | None = None) -> None:
    """Sends events to the Broker."""
    data = json.dumps({"order": ident, "lines": [{"sku": "a-1", "quantity": 2}], "total": 12.50})
    chosen = ["--data-dir", str(stack.settings.data_dir), "--namespace", NAMESPACE, "--broker", "shop"]
    words = ["send", data, "--type", kind, "--id", ident, "--count", str(count), "--attribute", "region=eu"]
    words += ["--rate", str(rate)] if rate else []
    command = [sys.executable, "-m", "penstock.cli", *words, *chosen]
    subprocess.run(command, check=True, capture_output=True, timeout=180)


def test_numbers_move(journey: Journey, subscriber: Subscriber) -> None:
    journey.shows(1200, 700)
    journey.open("/routes")
    cell = f'tr[data-route="Trigger/{NAMESPACE}/orders"] [data-number="rate"]'

    def moves() -> bool:
        send(journey.stack, "moving", count=40, rate=40)
        return journey.find(cell).text not in ("", "0.0")

    eventually(moves, 120)


def test_an_event_is_found_and_tells_why_it_failed(journey: Journey, subscriber: Subscriber) -> None:
    subscriber.answer(503)
    send(journey.stack, "unlucky")
    journey.open("/events")
    journey.fill("input[name=id]", "unlucky")
    journey.press("form.search button.primary")
    journey.reads("unlucky", reload=True)
    journey.photograph("search")
    journey.press("table a.mono")
    journey.reads("given up, nobody takes it", reload=True)
    for words in ("503", "1 route, 0 served, 1 not", f"trigger {NAMESPACE}/orders", "type is 'invoice', but the event"):
        journey.reads(words)
    journey.shows(1200, 1000)
    journey.photograph("event")
    journey.shows(1200, 1000, dark=True)
    journey.photograph("event-dark")
    journey.shows(400, 900, dark=True)
    assert journey.overflow() == 0
    journey.photograph("event-narrow")
    journey.shows(1200, 800)
    journey.press("svg.timeline a")
    assert "#attempt-" in journey.driver.current_url
    assert journey.complaints() == []


def test_what_was_given_up_is_redriven(journey: Journey, subscriber: Subscriber) -> None:
    subscriber.answer(503)
    send(journey.stack, "redriven")
    journey.open(f"/deadletters?route=trigger/{NAMESPACE}/orders")
    journey.reads("redriven", reload=True)
    subscriber.answer(202)
    journey.press(f'input[value="trigger/{NAMESPACE}/orders redriven"]')
    journey.reads("1 chosen")
    journey.photograph("deadletters")
    journey.press("#letters button.primary")
    journey.reads("1 sent: done")
    eventually(lambda: "redriven" in subscriber.taken, 120)
    journey.shows(400, 900)
    assert journey.overflow() == 0
    journey.shows(1200, 800)
    assert journey.complaints() == []


def test_an_event_is_sent_again_to_all(journey: Journey, subscriber: Subscriber) -> None:
    subscriber.answer(202)
    send(journey.stack, "twice")
    journey.open("/events?id=twice")
    journey.reads("order.created", reload=True)
    journey.press("table a.mono")
    journey.reads("new delivery to every route")
    journey.press("button.danger")
    journey.reads("It is a new event there, with the same id")
    eventually(lambda: subscriber.taken.count("twice") == 2, 120)


def test_what_comes_is_seen_as_it_comes(journey: Journey, subscriber: Subscriber) -> None:
    journey.open("/events/live?filter=type%3Dorder.live")
    journey.reads("live")

    def seen() -> bool:
        send(journey.stack, "seen-live", "order.live")
        send(journey.stack, "not-wanted", "order.other")
        return "seen-live" in journey.text()

    eventually(seen, 120)
    assert "not-wanted" not in journey.text()
    journey.photograph("live")
    journey.open("/events/live?filter=type+%3D")
    journey.reads("the expression ends too early")


def test_a_filter_is_tried_while_it_is_typed(journey: Journey, subscriber: Subscriber) -> None:
    send(journey.stack, "tried", "order.tried")
    journey.open("/playground")
    journey.choose("#broker", f"broker {NAMESPACE}/shop")
    journey.fill("#filter", "type = 'order.tried' AND region = 'eu'")
    journey.reads("recent events match")
    eventually(lambda: "order.tried" in journey.find("#yaml-text").text, 120)
    journey.reads("matches", reload=False)
    journey.reads("tried")
    journey.photograph("playground")
    journey.fill("#filter", "- exact: {Type: order}")
    wrong = manifest("Trigger", "wrong", NAMESPACE, {"broker": "shop", "filters": [{"exact": {"Type": "order"}}]})
    refused = journey.stack.kubectl("apply", "-f", "-", stdin=wrong, check=False)
    journey.reads("denied the request: validation failed")
    said = journey.find("#outcome .flash").text
    assert said.split("validation failed: ")[1].split()[:4] == refused.split("validation failed: ")[1].split()[:4]
    assert [line for line in journey.complaints() if "favicon" not in line] == []
