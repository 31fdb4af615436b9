"""The pages about events, over records as Kafka holds them: found, looked at, given up, redriven, tried."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from penstock.console.app import application
from penstock.console.console import Console
from penstock.console.events.archive import Archive
from penstock.console.events.deadletters_page import requests_of, route_named
from penstock.console.events.search_page import PAGE, SearchForm, position
from penstock.console.events.state import place_of
from penstock.history.reader.history import History
from penstock.kafka.ranges import LogRecord
from penstock.runtime.errors import UserError
from penstock.settings import Settings
from tests.unit.console.console_client import BROWSER, ORIGIN, know_tokens, signed_in
from tests.unit.console.known_api import KnownApi, broker, trigger
from tests.written import KeptRecords, NoKafka, attempt, event

Make = Callable[..., TestClient]


def now(record: LogRecord) -> LogRecord:
    """The record as if it had just come, for the Broker of the tests."""
    headers = [(name, b"uid-default" if name == "penstock_target" else value) for name, value in record.headers]
    return record._replace(at_ms=int(time.time() * 1000) - 5000 + record.offset, headers=headers)


@pytest.fixture
def client_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """A console over these records, and a browser that looks at it."""

    def make(api: KnownApi | None = None, kafka: KeptRecords | None = None, **topics: Any) -> TestClient:
        settings = Settings(data_dir=tmp_path, metrics=False, partitions=1, history=False)
        known = api or KnownApi(broker(), trigger("orders"))
        monkeypatch.setattr(Console, "api_of", lambda self, token: known)
        know_tokens(monkeypatch)
        app = application(Console(settings, asyncio.Event()))
        app.state.events.archive = Archive(lambda: History(settings, lambda _: kafka or KeptRecords(**topics)))
        return signed_in(TestClient(app, base_url=ORIGIN, headers=BROWSER, follow_redirects=False))

    return make


def test_events_are_found_and_what_cannot_be_seen_is_said(client_of: Make) -> None:
    records = [now(event(0, "first")), now(event(1, "second", kind="other", data=b"<script>alert(1)</script>"))]
    client = client_of(events=records)
    page = client.get("/events").text
    assert page.index(">second<") < page.index(">first<")
    assert "<script>alert" not in page
    assert "broker default/default" in page
    assert "The history is off" in page
    assert ">second<" not in client.get("/events?type=order").text
    assert ">first<" in client.get("/events", params={"id": "first"}).text
    assert ">first<" in client.get("/events", params={"where": "extensions['region'] = 'eu'"}).text
    assert "No events found" in client.get("/events?target=gone").text


def test_a_wrong_condition_is_told_beside_the_form(client_of: Make) -> None:
    client = client_of(events=[now(event(0, "first"))])
    for query in ({"where": "nonsense = 1"}, {"since": "soon"}, {"where": "1=1); drop table events; --"}):
        page = client.get("/events", params=query)
        assert page.status_code == 200
        assert 'role="alert"' in page.text
    assert client.get("/events", params={"after": "x"}).text.count("does not exist") == 1


def test_pages_follow_each_other(client_of: Make) -> None:
    client = client_of(events=[now(event(number, f"e{number}")) for number in range(PAGE + 3)])
    first = client.get("/events").text
    assert first.count('class="mono" href="/events/0/') == PAGE
    [older] = [part.split('"')[0] for part in first.split('rel="next" href="')[1:]]
    second = client.get(older.replace("&amp;", "&")).text
    assert [f">e{number}<" in second for number in (0, 1, 2, 3)] == [True, True, True, False]
    assert "Newest" in second


def test_without_kafka_the_page_says_so(client_of: Make) -> None:
    assert "Kafka is unreachable (nobody answers)" in client_of(kafka=NoKafka()).get("/events").text


def test_one_event_with_all_that_happened_to_it(client_of: Make) -> None:
    first = now(event(0, "first", data=b'{"hello": "world"}'))
    reply = now(event(9, "reply", span="c" * 16))
    attempts = [
        attempt(0, first, "retry", status=503, reason="HTTP status 503", route="uid-orders"),
        attempt(1, first, "replied", attempt=2, status=200, route="uid-orders"),
    ]
    api = KnownApi(
        broker(), trigger("orders"), trigger("other", spec={"filters": [{"exact": {"type": "x"}}]}), trigger("late")
    )
    client = client_of(api, events=[first, reply], attempts=attempts)
    page = client.get("/events/0/0").text
    for shown in (
        "503 in 50 ms: retrying",
        "1 route, 1 served, 0 not",
        'aria-label="trigger default/orders → http://sink/: attempt 2, after',
        "type is &#39;x&#39;, but the event has &#39;order&#39;",
        "it has not begun, or was made after the event",
        "&#34;world&#34;",
        "curl http://x/default/default",
        "new delivery to <strong>every</strong> route",
        'href="/events/0/9"',
    ):
        assert shown in page, shown
    assert ">Earlier<" in client.get("/events/0/9").text
    assert client.get("/events/0/77").status_code == 404
    downloaded = client.get("/events/0/0/data")
    assert downloaded.content == b'{"hello": "world"}'
    assert downloaded.headers["content-disposition"] == 'attachment; filename="event-first"'
    assert downloaded.headers["content-type"] == "application/octet-stream"


def test_resending_to_a_broker_that_is_not_there_says_so(client_of: Make) -> None:
    gone = client_of(KnownApi(), events=[now(event(0, "first"))]).post("/events/0/0/resend")
    assert gone.status_code == 409
    assert "no longer exists" in gone.text
    nowhere = broker()
    nowhere["status"]["address"]["url"] = "http://127.0.0.1:1/"
    refused = client_of(KnownApi(nowhere), events=[now(event(0, "first"))]).post("/events/0/0/resend")
    assert (refused.status_code, "is unreachable at" in refused.text) == (409, True)
    assert place_of({**broker(), "status": {}}).address.url == ""


@pytest.mark.parametrize(
    ("referer", "link"),
    [
        (f"{ORIGIN}/events/0/0?resent=x", 'href="/events/0/0?resent=x"'),
        (f"{ORIGIN}/events/0/0", 'href="/events/0/0"'),
        ("http://elsewhere.example/events/0/0", ""),
        (f"{ORIGIN}//elsewhere.example/", ""),
        (f"{ORIGIN}/events/0/0/resend", ""),
        ("javascript:alert(1)", ""),
        ("", ""),
    ],
)
def test_a_refusal_leads_back_to_the_page_that_asked(client_of: Make, referer: str, link: str) -> None:
    client = client_of(KnownApi(), events=[now(event(0, "first"))])
    refused = client.post("/events/0/0/resend", headers={"referer": referer})
    assert ("Back to where you were" in refused.text) == bool(link)
    assert link in refused.text
    assert "elsewhere" not in refused.text


def test_where_tokens_are_asked_for_the_page_asks_whose(client_of: Make) -> None:
    asking = broker()
    asking["status"]["address"] = {"url": "http://127.0.0.1:1/", "audience": "for/default"}
    client = client_of(KnownApi(asking), events=[now(event(0, "first"))])
    assert 'name="account" value="default"' in client.get("/events/0/0").text
    assert 'name="account"' not in client_of(events=[now(event(0, "first"))]).get("/events/0/0").text
    client = client_of(KnownApi(asking), events=[now(event(0, "first"))])
    nobody = client.post("/events/0/0/resend", data={"account": "nobody"})
    assert (nobody.status_code, "ServiceAccount default/nobody does not exist" in nobody.text) == (409, True)
    assert "for which you may create tokens" in nobody.text
    assert "ServiceAccount default/default does not exist" in client.post("/events/0/0/resend").text
    assert "is unreachable at" in client.post("/events/0/0/resend", data={"account": " till "}).text


def test_what_was_given_up_can_be_chosen_and_redriven(client_of: Make) -> None:
    letters = [now(event(number, f"e{number}")) for number in range(3)]
    attempts = [attempt(n, one, "dropped", reason="refused", attempt=4) for n, one in enumerate(letters)]
    api = KnownApi(broker(), trigger("orders"))
    client = client_of(api, events=letters, attempts=attempts)
    page = client.get("/deadletters").text
    assert "trigger/default/orders" in page
    assert page.count('name="letter"') == 3
    chosen = {"letter": ["trigger/default/orders e0", "trigger/default/orders e2"], "since": "24h"}
    made = client.post("/deadletters/redrive", data=chosen)
    assert (made.status_code, made.headers["location"]) == (303, "/deadletters?since=24h#replays")
    assert api.created[-1]["spec"] == {
        "target": {"kind": "Trigger", "name": "orders"},
        "from": "24h",
        "eventIds": ["e0", "e2"],
        "deadLetters": True,
    }
    client.post("/deadletters/redrive", data={"group": "trigger/default/orders", "reason": "refused", "since": "1h"})
    assert api.created[-1]["spec"]["reason"] == "refused"
    assert client.post("/deadletters/redrive", data={"since": "1h"}).status_code == 409
    assert "No dead letters" in client.get("/deadletters?reason=other").text
    assert 'role="alert"' in client.get("/deadletters?route=nothing").text


def test_each_route_gets_a_replay_of_its_own() -> None:
    fields = [("letter", "trigger/a/one 1"), ("letter", "subscription/b/two 2"), ("letter", "trigger/a/one 3")]
    found = requests_of(fields)
    assert [(namespace, replay["spec"]["eventIds"]) for namespace, replay in found] == [("a", ["1", "3"]), ("b", ["2"])]
    with pytest.raises(UserError, match="pod/a/b"):
        route_named("pod/a/b")


def test_progress_moves_while_a_replay_runs(client_of: Make) -> None:
    replay: dict[str, Any] = {
        "kind": "Replay",
        "metadata": {"name": "orders-1", "namespace": "default", "creationTimestamp": "2026-11-17T12:00:00Z"},
        "spec": {"target": {"kind": "Trigger", "name": "orders"}, "deadLetters": True},
        "status": {"startTime": "2026-11-17T12:00:00Z", "counted": 5, "sent": 2, "progress": "40%"},
    }
    client = client_of(KnownApi(broker(), replay))
    running = client.get("/deadletters/replays").text
    assert 'value="40.0"' in running
    assert "data-busy" in running
    replay["status"] |= {"completionTime": "x", "conditions": [{"type": "Succeeded", "status": "True"}]}
    assert "data-busy" not in client.get("/deadletters/replays").text


def test_a_filter_is_tried_part_by_part(client_of: Make) -> None:
    client = client_of(events=[now(event(0, "a")), now(event(1, "b", kind="greeting"))])
    page = client.get("/playground", params={"filter": "- prefix: {type: gre}"}).text
    assert "<strong>1 of 2</strong>" in page
    assert "type begins with &#39;gre&#39;, but the event has &#39;order&#39;" in page
    assert "kind: Trigger" in page
    tried = client.get("/playground/tries", params={"filter": "type = 'order' AND region = 'eu'"}).text
    assert "<strong>1 of 2</strong>" in tried
    assert "<!doctype" not in tried


@pytest.mark.parametrize("text", ["type =", "- {exact: {Type: x}}", "- {exact: {type: a}, prefix: {type: b}}"])
def test_a_wrong_filter_is_refused_in_the_words_of_the_api(client_of: Make, text: str) -> None:
    page = client_of().get("/playground", params={"filter": text}).text
    assert "admission webhook &#34;validation.webhook.eventing.knative.dev&#34; denied the request" in page


def test_a_backtest_of_what_is_wrong_does_not_begin(client_of: Make) -> None:
    assert client_of().post("/playground/backtests", data={"filter": "type ="}).status_code == 409
    assert client_of().post("/playground/backtests", data={"filter": "", "since": "soon"}).status_code == 409
    assert client_of(KnownApi()).post("/playground/backtests", data={"filter": ""}).status_code == 409
    assert client_of().get("/playground/backtests/unknown").status_code == 404


def test_what_is_asked_for_survives_in_the_address() -> None:
    wanted = SearchForm.read({"id": " a&b ", "type": "t"})
    assert (wanted.since, wanted.id) == ("", "a&b")
    assert wanted.query(after="x") == "since=&type=t&id=a%26b&after=x"
    assert position("2026-11-17T12:00:00+00:00_3_7").offset == 7
