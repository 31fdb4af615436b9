"""An operator before the console of a whole stack, in a real Chromium: sees the map move, pauses, resumes, replays."""

from __future__ import annotations

import contextlib
import threading
import urllib.request
from collections.abc import Iterator

import pytest

from tests import browser
from tests.console_journey import Journey, Subscriber
from tests.running import Stack
from tests.waiting import eventually

NAMESPACE = "journey"

pytestmark = pytest.mark.skipif(not browser.is_here(), reason=browser.LEFT_OUT)


@pytest.fixture
def subscriber() -> Iterator[Subscriber]:
    one = Subscriber()
    yield one
    one.close()


@pytest.fixture
def journey(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Journey]:
    driver = browser.start(tmp_path_factory.mktemp("browser"))
    try:
        journey = Journey(driver, stack.settings.console_url.rstrip("/"))
        eventually(lambda: stack.record["components"]["console"]["state"] == "ready", 180)
        journey.sign_in(stack.penstock("open", "--no-browser").strip())
        yield journey
    finally:
        driver.quit()


@pytest.fixture
def sending(stack: Stack, subscriber: Subscriber) -> Iterator[threading.Event]:
    """Twenty events a second to a Broker with one Trigger, until it is set."""
    stack.kubectl("create", "namespace", NAMESPACE)
    for line in (["broker"], ["trigger", "orders", "--subscriber", subscriber.url]):
        stack.penstock("create", *line, "--namespace", NAMESPACE)
    enough = threading.Event()
    thread = threading.Thread(target=send, args=(f"http://127.0.0.1:{stack.settings.port}/{NAMESPACE}/default", enough))
    thread.start()
    yield enough
    enough.set()
    thread.join()
    stack.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


def send(url: str, enough: threading.Event) -> None:
    number = 1
    while not enough.wait(0.05):
        headers = {
            "ce-specversion": "1.0",
            "ce-id": f"order-{number}",
            "ce-source": "/shop",
            "ce-type": "order.created",
            "content-type": "application/json",
        }
        with contextlib.suppress(OSError):  # refused, or too late: it is sent again
            urllib.request.urlopen(urllib.request.Request(url, b'{"total": 12.5}', headers), timeout=60).close()
            number += 1


def test_an_operator_sees_the_map_move_pauses_and_replays(
    stack: Stack, subscriber: Subscriber, sending: threading.Event, journey: Journey
) -> None:
    journey.shows(1200, 700)
    journey.open(f"/?q={NAMESPACE}")
    journey.reads("orders")
    eventually(lambda: counts(journey, ".box.route text[data-rate]"), 120)
    journey.photograph("map")
    journey.open(f"/routes/trigger/{NAMESPACE}/orders")
    eventually(lambda: counts(journey, "[data-number=rate]"), 120)
    journey.photograph("route")

    sending.set()
    eventually(lambda: "order-1" in subscriber.taken, 120)
    journey.press('form[action$="/pause"] button')
    journey.reads("Deliveries are paused")
    assert paused(stack) == "true"
    journey.press('form[action$="/resume"] button')
    eventually(lambda: paused(stack) == "", 60)

    before = subscriber.taken.count("order-1")
    journey.press("#replay form button.primary")
    journey.reads("sent: done")
    eventually(lambda: subscriber.taken.count("order-1") > before, 120)
    assert journey.complaints() == []


def counts(journey: Journey, selector: str) -> bool:
    """Whether there is a number, and not zero."""
    text = journey.text_of(selector)
    return any(digit in text for digit in "123456789")


def paused(stack: Stack) -> str:
    path = r"jsonpath={.metadata.annotations.penstock\.dev/paused}"
    return stack.kubectl("-n", NAMESPACE, "get", "trigger", "orders", "-o", path)
