"""Deliveries on a real Kafka: what subscribers, replies and dead letter sinks get, and what is written down."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
from typing import Any
from urllib.parse import unquote

import msgspec

from penstock.contract import topics
from penstock.contract.reports import Ack, SeenType, decode
from penstock.contract.routes import Delivery, Endpoint, ServiceName, Target
from tests.integration.dispatcher.dispatcher_stage import OK, TRACE, Stage, Subscribe
from tests.waiting import until

EVENT_ANSWER = {"ce-specversion": "1.0", "ce-id": "r1", "ce-source": "/reply", "ce-type": "reply"}
BUSY_SECONDS = 5.0
"""By so much later a retry may be due where a machine pauses between an answer and the decision. It is never early."""


async def test_an_event_arrives_and_everything_about_it_is_written_down(stage: Stage, subscribe: Subscribe) -> None:
    subscriber = await subscribe()
    route = stage.trigger(subscriber.endpoint)
    version = stage.publish(route)
    [ident] = stage.match(route, data=b'{"a": 1}')
    async with stage.task():
        await until(lambda: subscriber.requests, "the event")
    [request] = subscriber.requests
    assert request.body == b'{"a": 1}'
    sent = request.headers
    assert (sent["ce-id"], sent["content-type"], sent["prefer"]) == (ident, "application/json", "reply")
    assert (sent["kn-namespace"], sent["x-request-id"]) == ("team", "42")
    assert "ce-knativebrokerttl" not in sent
    assert (sent["traceparent"][:36], sent["traceparent"][52:]) == (TRACE[:36], TRACE[52:])
    assert sent["traceparent"][36:52] != TRACE[36:52]
    assert sent["accept-encoding"] == "gzip"
    [fact] = stage.attempts(route)
    assert (fact["id"], fact["status"], fact["result"], fact["attempt"]) == (ident, 202, "delivered", 1)
    cursors = stage.table(topics.CURSORS)
    assert msgspec.json.decode(cursors[f"{route.uid}/0"])["next"] == fact["origin"] + 1
    assert "outstanding" not in msgspec.json.decode(cursors[f"{route.uid}/0"])
    acks = [decode(key, value) for key, value, _ in stage.read(topics.REPORTS) if key.startswith("ack/") and value]
    assert any(isinstance(ack, Ack) and ack.version == version for ack in acks)


async def test_retries_wait_as_told_and_each_is_a_span_of_its_own(stage: Stage, subscribe: Subscribe) -> None:
    answers = iter([409, 503, 202])
    subscriber = await subscribe(lambda _: (next(answers), {}, b""))
    policy = Delivery(retry=3, backoff_policy="exponential", backoff_delay=0.2)
    route = stage.trigger(subscriber.endpoint, delivery=policy)
    stage.publish(route)
    async with stage.task():
        stage.match(route)
        await until(lambda: len(subscriber.requests) == 3, "three attempts")
    spans = {request.headers["traceparent"] for request in subscriber.requests}
    assert (len(spans), {span[:36] for span in spans}) == (3, {TRACE[:36]})
    facts = stage.attempts(route)
    assert [(fact["attempt"], fact["status"], fact["result"]) for fact in facts] == [
        (1, 409, "retry"),
        (2, 503, "retry"),
        (3, 202, "delivered"),
    ]
    for fact, wait, following in zip(facts, (0.2, 0.4), subscriber.requests[1:], strict=False):
        assert wait - 0.02 <= fact["due"] - fact["at"] - fact["latency"] < wait + BUSY_SECONDS
        assert following.at >= fact["due"] - 0.02


async def test_a_refused_event_goes_to_the_dead_letter_sink_with_its_story(stage: Stage, subscribe: Subscribe) -> None:
    subscriber = await subscribe(lambda _: (422, {}, b"x" * 2000))
    sink = await subscribe()
    route = stage.trigger(subscriber.endpoint, delivery=Delivery(retry=5, dead_letter=sink.endpoint))
    stage.publish(route)
    async with stage.task():
        stage.match(route)
        await until(lambda: sink.requests, "the dead letter")
    told = sink.requests[0].headers
    assert len(subscriber.requests) == 1
    assert told["ce-knativeerrordest"] == subscriber.url
    assert told["ce-knativeerrorcode"] == "422"
    assert told["ce-knativeerrordata"] == base64.b64encode(b"x" * 2000).decode()[:1024]
    assert (told["ce-deadlettersubscriberuri"], told["ce-deadletterretry"]) == (subscriber.url, "1")
    assert unquote(told["ce-deadletterreason"]) == "HTTP status 422"
    assert told["traceparent"][:36] == TRACE[:36]
    assert told["traceparent"] != subscriber.requests[0].headers["traceparent"]
    assert "prefer" not in told
    assert told["ce-knativebrokerttl"] == "255"


async def test_a_dead_subscriber_is_told_apart_and_a_sink_that_fails_drops_the_event(
    stage: Stage, subscribe: Subscribe
) -> None:
    sink = await subscribe(lambda _: (500, {}, b""))
    nowhere = Endpoint("http://127.0.0.1:9/")
    route = stage.trigger(nowhere, delivery=Delivery(retry=1, dead_letter=sink.endpoint))
    stage.publish(route)
    async with stage.task():
        stage.match(route)
        await until(lambda: len(sink.requests) == 2, "two attempts at the sink")
    told = sink.requests[0].headers
    assert (told["ce-knativeerrorcode"], told["ce-deadletterretry"]) == ("500", "2")
    assert base64.b64decode(told["ce-knativeerrordata"]).startswith(b"dispatch error: ")
    stages = [(fact["stage"], fact["result"]) for fact in stage.attempts(route)]
    assert stages == [
        ("subscriber", "retry"),
        ("subscriber", "deadletter"),
        ("deadletter", "retry"),
        ("deadletter", "dropped"),
    ]
    assert not any(key.startswith(f"payload/{route.uid}") for key in stage.table(topics.CURSORS))


async def test_a_triggers_reply_goes_back_into_its_broker(stage: Stage, subscribe: Subscribe) -> None:
    subscriber = await subscribe(lambda _: (200, {**EVENT_ANSWER, "ce-id": "back", "knative-x": "7"}, b"hello"))
    route = stage.trigger(subscriber.endpoint)
    stage.publish(route)

    def stored(ident: str) -> list[tuple[bytes | None, dict[str, bytes]]]:
        found = [(value, headers) for _, value, headers in stage.read(topics.EVENTS)]
        return [(value, headers) for value, headers in found if headers.get("ce_id") == ident.encode()]

    async with stage.task():
        stage.match(route)
        await until(lambda: subscriber.requests, "the event")
        await until(lambda: stored("back"), "the reply in the Broker")
    [(value, headers)] = stored("back")
    assert value == b"hello"
    assert (headers["ce_type"], headers["penstock_target"]) == (b"reply", b"broker-uid")
    assert headers["ce_knativebrokerttl"] == b"254"
    assert headers["ce_knativearrivaltime"].endswith(b"Z")
    assert headers["penstock_http_knative-x"] == b"7"
    assert headers["penstock_traceparent"][:36] == TRACE[:36].encode()
    assert headers["penstock_tracestate"] == b"a=b"


async def test_a_broker_that_wants_to_know_hears_of_the_types_of_replies(stage: Stage, subscribe: Subscribe) -> None:
    subscriber = await subscribe(lambda _: (200, EVENT_ANSWER, b"{}"))
    route = stage.trigger(subscriber.endpoint)
    stage.publish(route, targets=(Target("broker-uid", "Broker", "team", "default", tells_types=True),))
    async with stage.task():
        stage.match(route)
        await until(lambda: seen_types(stage), "the type of the reply")
    assert {(seen.target, seen.type, seen.source) for seen in seen_types(stage)} == {("broker-uid", "reply", "/reply")}


def seen_types(stage: Stage) -> list[SeenType]:
    found = [decode(key, value) for key, value in stage.table(topics.REPORTS).items()]
    return [seen for seen in found if isinstance(seen, SeenType)]


async def test_a_subscriptions_reply_is_retried_alone_and_its_failure_buries_the_original(
    stage: Stage, subscribe: Subscribe
) -> None:
    structured = {"content-type": "application/cloudevents+json", "content-encoding": "gzip"}
    subscriber = await subscribe(lambda _: (200, structured, gzip.compress(REPLY)))
    reply = await subscribe(lambda _: (503, {"content-encoding": "gzip"}, gzip.compress(b"busy")))
    sink = await subscribe()
    policy = Delivery(retry=2, dead_letter=sink.endpoint)
    route = stage.subscription(subscriber.endpoint, reply=reply.endpoint, delivery=policy)
    stage.publish(route)
    async with stage.task():
        [ident] = stage.match(route)
        await until(lambda: sink.requests, "the dead letter")
    assert len(subscriber.requests) == 1
    assert reply.ids == ["r2", "r2", "r2"]
    assert "prefer" not in reply.requests[0].headers
    told = sink.requests[0].headers
    assert told["ce-id"] == ident
    assert (told["ce-knativeerrordest"], told["ce-knativeerrorcode"]) == (reply.url, "503")
    assert base64.b64decode(told["ce-knativeerrordata"]) == b"busy"
    sent = [request.headers for request in (*subscriber.requests, *reply.requests, *sink.requests)]
    assert {headers["traceparent"][:36] for headers in sent} == {TRACE[:36]}
    assert len({headers["traceparent"] for headers in sent}) == 5
    assert {headers["tracestate"] for headers in sent} == {"a=b"}
    assert (told["ce-deadlettersubscriberuri"], told["ce-deadletterretry"]) == (subscriber.url, "3")


REPLY = json.dumps({"specversion": "1.0", "id": "r2", "source": "/reply", "type": "reply"}).encode()


async def test_a_subscription_without_subscriber_sends_to_its_reply(stage: Stage, subscribe: Subscribe) -> None:
    reply = await subscribe()
    route = stage.subscription(None, reply=reply.endpoint)
    stage.publish(route)
    async with stage.task():
        [ident] = stage.match(route)
        await until(lambda: reply.requests, "the event")
    assert reply.ids == [ident]
    assert "prefer" not in reply.requests[0].headers


async def test_what_counts_as_a_reply(stage: Stage, subscribe: Subscribe) -> None:
    broken = {"ce-specversion": "1.0", "ce-id": "r3"}
    answers: dict[str, Any] = {
        "202 with an event": (202, EVENT_ANSWER, b"x"),
        "200 with some body": (200, {"content-type": "text/plain"}, b"thanks"),
        "200 with a broken event": (200, broken, b""),
    }
    reply = await subscribe()
    found, routes, subscribers = {}, {}, []
    for name, answer in answers.items():
        subscriber = await subscribe(lambda _, answer=answer: answer)
        subscribers.append(subscriber)
        routes[name] = stage.subscription(subscriber.endpoint, reply=reply.endpoint, delivery=Delivery(retry=1))
    stage.publish(*routes.values())
    async with stage.task():
        stage.match(*routes.values())
        await until(lambda: len(subscribers[2].requests) == 2, "two attempts")
        await until(lambda: all(subscriber.requests for subscriber in subscribers), "all attempts")
    for name, route in routes.items():
        found[name] = [fact["result"] for fact in stage.attempts(route)]
    assert found == {
        "202 with an event": ["delivered"],
        "200 with some body": ["delivered"],
        "200 with a broken event": ["retry", "dropped"],
    }
    assert reply.requests == []


async def test_names_of_the_snapshot_lead_to_their_address_and_may_have_none(
    stage: Stage, subscribe: Subscribe
) -> None:
    subscriber = await subscribe()
    known = ServiceName("sink.team.svc.cluster.local", {"80": (f"127.0.0.1:{subscriber.port}",)})
    empty = ServiceName("none.team.svc.cluster.local", {"80": ()})
    route = stage.trigger(Endpoint("http://sink.team.svc.cluster.local/in"))
    lost = stage.trigger(Endpoint("http://none.team.svc.cluster.local/in"))
    stage.publish(route, lost, names=(known, empty))
    async with stage.task():
        stage.match(route, lost)
        await until(lambda: subscriber.requests, "the event")
        await until(lambda: stage.attempts(lost), "the failure")
    assert subscriber.requests[0].headers["host"] == "sink.team.svc.cluster.local"
    assert "no ready address" in stage.attempts(lost)[0]["reason"]


async def test_an_unreadable_record_is_passed_over(stage: Stage, subscribe: Subscribe) -> None:
    subscriber = await subscribe()
    route = stage.trigger(subscriber.endpoint)
    stage.publish(route)
    uid = route.uid.encode()
    async with stage.task():
        stage.write_raw(b"\xff", [])
        stage.write_raw(b"", [("penstock_origin", b"x"), ("penstock_routes", b"\xff")])
        stage.write_raw(b"", [("penstock_origin", b"1"), ("penstock_routes", uid), ("ce_id", b"\xff")])
        [ident] = stage.match(route)
        await until(lambda: subscriber.requests, "the event after it")
    assert subscriber.ids == [ident]
    assert [fact["result"] for fact in stage.attempts(route)] == ["dropped", "delivered"]


async def test_retry_after_is_obeyed_within_its_limit(stage: Stage, subscribe: Subscribe) -> None:
    answers = iter([(429, {"retry-after": "60"}, b""), OK])
    subscriber = await subscribe(lambda _: next(answers))
    route = stage.trigger(subscriber.endpoint, delivery=Delivery(retry=1, retry_after_max=0.5))
    stage.publish(route)
    async with stage.task():
        stage.match(route)
        await until(lambda: len(subscriber.requests) == 2, "the retry")
    asked, _ = stage.attempts(route)
    assert 0.48 <= asked["due"] - asked["at"] - asked["latency"] < 0.5 + BUSY_SECONDS, "not the 60 s that it asked for"
    assert subscriber.requests[1].at >= asked["due"] - 0.02


async def test_a_triggers_reply_that_cannot_be_stored_fails_the_whole_delivery(
    stage: Stage, subscribe: Subscribe
) -> None:
    subscriber = await subscribe(lambda _: (200, EVENT_ANSWER, b"x" * (stage.settings.max_event_bytes + 1)))
    sink = await subscribe()
    route = stage.trigger(subscriber.endpoint, delivery=Delivery(retry=1, dead_letter=sink.endpoint))
    stage.publish(route)
    async with stage.task():
        [ident] = stage.match(route)
        await until(lambda: sink.requests, "the dead letter")
    assert subscriber.ids == [ident, ident]
    told = sink.requests[0].headers
    assert (told["ce-knativeerrorcode"], told["ce-knativeerrordest"]) == ("503", subscriber.url)
    assert b"larger than an event may be" in base64.b64decode(told["ce-knativeerrordata"])


async def test_a_reply_that_has_gone_in_circles_is_dropped_and_the_delivery_is_done(
    stage: Stage, subscribe: Subscribe
) -> None:
    subscriber = await subscribe(lambda _: (200, EVENT_ANSWER, b""))
    route = stage.trigger(subscriber.endpoint, delivery=Delivery(retry=3))
    stage.publish(route)
    stage.match(route, ttl="1")
    stored = len(stage.read(topics.EVENTS))
    async with stage.task():
        await until(lambda: subscriber.requests, "the event")
    assert [fact["result"] for fact in stage.attempts(route)] == ["delivered"]
    assert len(stage.read(topics.EVENTS)) == stored


async def test_a_stop_lets_requests_end_and_repeats_nothing(stage: Stage, subscribe: Subscribe) -> None:
    answered = asyncio.Event()

    async def slow(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await answered.wait()
        writer.write(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n")
        await writer.drain()

    subscriber = await subscribe(misbehave=slow)
    route = stage.trigger(subscriber.endpoint, max_in_flight=3)
    stage.publish(route)
    async with stage.task():
        ids = stage.match(route, count=10)
        await until(lambda: len(subscriber.requests) == 3, "three requests under way")
        asyncio.get_running_loop().call_later(0.5, answered.set)
    assert len(subscriber.requests) == 3
    assert len(stage.attempts(route)) == 3
    async with stage.task():
        await until(lambda: len(subscriber.requests) == 10, "the rest")
    assert sorted(subscriber.ids) == sorted(ids)
