"""Journeys of an operator through the console, in a real Chromium."""

from __future__ import annotations

import pytest

from tests.console_journey import Journey, Subscriber
from tests.integration.console.served_console import ServedConsole
from tests.waiting import eventually

PAGES = ("/events", "/events/0/60", "/events/0/61", "/events/live", "/deadletters", "/playground?filter=type+%3D")


def test_an_event_is_found_and_tells_why_it_failed(journey: Journey) -> None:
    journey.shows(1200, 800)
    journey.open("/events")
    journey.reads("order-59")
    journey.photograph("search")
    journey.press("a[rel=next]")
    journey.reads("order-0")
    journey.fill("input[name=id]", "unlucky")
    journey.press("form.search button.primary")
    journey.press('a[href="/events/0/60"]')
    for words in ("dropped", "503", "1 route, 0 served, 1 not", "type is 'invoice', but the event"):
        journey.reads(words)
    journey.shows(1200, 1000)
    journey.photograph("event")
    journey.shows(1200, 1000, dark=True)
    journey.photograph("event-dark")
    journey.shows(1200, 800)
    journey.press("svg.timeline a")
    eventually(lambda: "#attempt-" in journey.driver.current_url)
    assert journey.complaints() == []


def test_what_was_given_up_is_redriven(journey: Journey, console: ServedConsole) -> None:
    journey.open("/deadletters")
    journey.reads("dropped")
    journey.press('input[value="trigger/default/orders unlucky"]')
    journey.reads("1 selected")
    journey.photograph("deadletters")
    journey.press("#letters button.primary")
    journey.reads("1 found, 1 sent: done")
    assert [made["spec"]["eventIds"] for made in console.objects.created] == [["unlucky"]]
    assert journey.complaints() == []


def test_an_event_is_sent_again_to_all(journey: Journey, subscriber: Subscriber) -> None:
    journey.open("/events/0/61")
    journey.reads("new delivery to every route")
    journey.press("button.danger")
    journey.reads("It is a new event there, with the same id")
    eventually(lambda: subscriber.taken == ["hello"], 60)


def test_five_thousand_events_a_second_are_a_sample_that_says_so(journey: Journey) -> None:
    journey.open("/events/live")
    journey.reads("A sample: showing 20 of")
    journey.reads("live-1")
    journey.photograph("live")
    journey.press("#hold")
    journey.reads("Continue")
    journey.open("/events/live?filter=type+%3D")
    journey.reads("the expression ends too early")
    journey.complaints()  # the browser tells of the answer 400, too


def test_a_filter_is_tried_while_it_is_typed(journey: Journey) -> None:
    journey.open("/playground")
    journey.choose("#broker", "broker default/shop")
    journey.fill("#filter", "type = 'greeting' AND region = 'eu'")
    journey.reads("1 of 50 recent events match")
    journey.reads("cesql: type = 'greeting' AND region = 'eu'")
    journey.photograph("playground")
    journey.fill("#filter", "- exact: {Type: order}")
    journey.reads('admission webhook "validation.webhook.eventing.knative.dev" denied the request: validation failed')
    assert journey.complaints() == []


@pytest.mark.parametrize("path", PAGES)
def test_every_page_fits_a_telephone_in_the_dark(journey: Journey, path: str) -> None:
    journey.shows(400, 900, dark=True)
    journey.open(path)
    assert journey.overflow() == 0
    if path == "/events/0/60":
        journey.photograph("event-narrow")
    journey.shows(1200, 800)
