"""Signed deliveries: what receivers can verify, what goes unsigned (nothing that should not), and what waits."""

from __future__ import annotations

import asyncio
import base64
import time
from typing import Any, cast

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook, WebhookVerificationError

from penstock.contract.attempts import FailureCause
from penstock.contract.reports import Standing
from penstock.contract.routes import Delivery, Endpoint, Route, SecretVersion
from penstock.contract.snapshot import Snapshot
from penstock.dispatcher.cursors.cursor import Stage
from penstock.dispatcher.cursors.stage_payload import Failure, StagePayload, reply_payload
from penstock.dispatcher.delivery.attempt import AttemptSender
from penstock.dispatcher.delivery.credentials import DeliveryCredentials
from penstock.dispatcher.delivery.replies import ReplyWriter
from penstock.dispatcher.http.client import SubscriberClient
from penstock.dispatcher.http.connection import SubscriberResponse
from penstock.dispatcher.http.outcome import Outcome, Withheld
from penstock.dispatcher.matched_record import Matched
from penstock.dispatcher.secrets import message_id, signature_lines
from penstock.events.event import CloudEvent
from penstock.observability.trace import configure
from penstock.oidc.tokens import AccountTokens
from penstock.web.tls_clients import ClientCertificate
from tests.certificate_files import authority, client_of
from tests.unit.dispatcher.dispatcher_double import Node, Topic, Written
from tests.unit.dispatcher.secrets_double import Kubernetes
from tests.unit.dispatcher.virtual_time import in_virtual_time, turns

OLD, NEW = "whsec_" + base64.b64encode(b"o" * 24).decode(), "whsec_" + base64.b64encode(b"n" * 64).decode()
ROUTE = Route(
    "r",
    "Trigger",
    "team",
    "r",
    "b",
    subscriber=Endpoint("http://s/"),
    delivery=Delivery(format="json"),
    signing=SecretVersion("keys", "1"),
)
UNSIGNED = Route("u", "Trigger", "team", "u", "b", subscriber=Endpoint("http://s/"))


def stored(ident: str = "1", source: str = "/till", data: bytes = b"{}") -> Matched:
    texts = {"specversion": "1.0", "id": ident, "source": source, "type": "sold"}
    raw = [(f"ce_{name}", text.encode()) for name, text in texts.items()]
    return Matched(0, 0, 0, 0, routes=("r",), raw=[*raw, ("content-type", b"application/json")], value=data)


def parsed(lines: bytes) -> dict[str, str]:
    split = (line.partition(": ") for line in lines.decode().split("\r\n") if line)
    return {name: value for name, _, value in split}


class Receiver:
    """Answers as it is told, and remembers what it was sent."""

    def __init__(self) -> None:
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.shown: list[ClientCertificate | None] = []
        self.status = 202

    async def post(
        self, _endpoint: Endpoint, _names: Any, lines: bytes, body: bytes, **options: Any
    ) -> SubscriberResponse:
        self.got.append((parsed(lines), body))
        self.shown.append(options["certificate"])
        return SubscriberResponse(self.status, {}, b"", 1024)


class Delivering:
    """A sender with a clock of its own between a receiver and a Kubernetes API."""

    def __init__(self, **secrets: str) -> None:
        self.receiver, self.now = Receiver(), time.time()
        self.kubernetes = Kubernetes({"keys": {name: text.encode() for name, text in secrets.items()}})
        self.kept = self.kubernetes.kept()
        self.sender = AttemptSender(
            cast("SubscriberClient", self.receiver),
            cast("ReplyWriter", None),
            configure("test"),
            1.0,
            1024,
            credentials=DeliveryCredentials(lambda: cast("AccountTokens", None), self.kept, lambda: self.now),
        )

    async def send(
        self, route: Route, stage: Stage = Stage.SUBSCRIBER, payload: StagePayload | None = None
    ) -> tuple[dict[str, str], bytes]:
        self.kept.follow(route)
        await turns()
        result = await self.sender.attempt(route, stage, stored(), payload)
        assert result.verdict.outcome is Outcome.DELIVERED
        return self.receiver.got[-1]


# --- what a receiver sees --------------------------------------------------------------------------------------------


async def test_a_receiver_with_the_secret_verifies_the_whole_event() -> None:
    headers, body = await Delivering(only=NEW).send(ROUTE)
    event = Webhook(NEW).verify(body, headers)
    assert (event["id"], event["source"], event["type"], event["data"]) == ("1", "/till", "sold", {})
    with pytest.raises(WebhookVerificationError, match="No matching signature"):
        Webhook(OLD).verify(body, headers)
    with pytest.raises(WebhookVerificationError, match="No matching signature"):
        Webhook(NEW).verify(body.replace(b"sold", b"free"), headers)


async def test_while_two_secrets_are_in_force_receivers_of_either_verify() -> None:
    headers, body = await Delivering(a=OLD, b=NEW).send(ROUTE)
    assert len(headers["webhook-signature"].split(" ")) == 2
    assert Webhook(OLD).verify(body, headers) == Webhook(NEW).verify(body, headers)


async def test_the_published_example_has_the_signature_that_others_make_of_it() -> None:
    key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    lines = signature_lines((key,), "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert parsed(lines) == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


async def test_every_attempt_has_the_same_id_and_its_own_time() -> None:
    delivering = Delivering(only=NEW)
    first, _ = await delivering.send(ROUTE)
    delivering.now += 90
    second, body = await delivering.send(ROUTE)
    assert first["webhook-id"] == second["webhook-id"]
    assert int(second["webhook-timestamp"]) - int(first["webhook-timestamp"]) == 90
    assert Webhook(NEW).verify(body, second)


async def test_replies_and_dead_letters_are_signed_as_messages_of_their_own() -> None:
    delivering = Delivering(only=NEW)
    route = msgspec.structs.replace(
        ROUTE,
        kind="Subscription",
        reply=Endpoint("http://r/"),
        delivery=Delivery(format="json", dead_letter=Endpoint("http://d/")),
    )
    answer = reply_payload(CloudEvent({"specversion": "1.0", "id": "1", "source": "/till", "type": "answer"}, None), [])
    failure = StagePayload(failure=Failure("http://s/", 500, "", "http://s/", "HTTP status 500", 1))
    sent = [
        await delivering.send(route),
        await delivering.send(route, Stage.REPLY, answer),
        await delivering.send(route, Stage.DEAD_LETTER, failure),
    ]
    assert [Webhook(NEW).verify(body, headers)["type"] for headers, body in sent] == ["sold", "answer", "sold"]
    assert len({headers["webhook-id"] for headers, _ in sent}) == 3


async def test_binary_mode_signs_the_data_as_it_is() -> None:
    binary = msgspec.structs.replace(ROUTE, delivery=Delivery(format="binary"))
    headers, body = await Delivering(only=NEW).send(binary)
    assert (body, headers["ce-type"]) == (b"{}", "sold")
    Webhook(NEW).verify(body, headers)


async def test_a_route_that_names_no_secret_sends_as_ever_and_asks_for_none() -> None:
    delivering = Delivering(only=NEW)
    headers, _ = await delivering.send(UNSIGNED)
    assert not [name for name in headers if name.startswith("webhook-")]
    assert delivering.kubernetes.asked == []


async def test_an_attempt_whose_secret_is_not_here_sends_nothing() -> None:
    delivering = Delivering(only=NEW)
    with pytest.raises(Withheld, match="the Secret with the signing keys is not available") as problem:
        await delivering.sender.attempt(ROUTE, Stage.SUBSCRIBER, stored(), None)
    assert (problem.value.cause, delivering.receiver.got) == (FailureCause.SECRET_UNAVAILABLE, [])


identities = st.tuples(st.text(max_size=4), st.text(max_size=4), st.text(max_size=4))


@given(identities, identities)
def test_ids_are_the_same_for_the_same_event_and_route_only(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    def ident(parts: tuple[str, ...]) -> str:
        route = msgspec.structs.replace(ROUTE, uid=parts[0])
        return message_id(route, Stage.SUBSCRIBER, stored(parts[1], parts[2]), None)

    assert (ident(one) == ident(other)) == (one == other)


# --- what waits ------------------------------------------------------------------------------------------------------

COUNT = 3


def waiting_for(secret: str = "1", kubernetes: Kubernetes | None = None, **options: Any) -> Node:
    """A task with some events for a route that retries nothing, beside one that signs nothing."""
    route = msgspec.structs.replace(ROUTE, signing=SecretVersion("keys", secret), **options)
    written = [Written(origin, ("r", "u"), origin) for origin in range(COUNT)]
    return Node(
        {"r": route, "u": UNSIGNED},
        Topic(records=written),
        Topic(records=list(written)),
        kubernetes=kubernetes or Kubernetes({"keys": {"only": NEW.encode()}}),
    )


def told(node: Node) -> Standing:
    """What the control plane heard last of the route."""
    return [standing for standing in node.reports.standings if standing.route == "r"][-1]


def got(node: Node, route: str) -> list[int]:
    return [event for uid, event in node.seen if uid == route]


@in_virtual_time
async def test_nothing_is_sent_before_the_secret_is_here_and_everything_after() -> None:
    node = waiting_for(kubernetes=Kubernetes(problem="the Secret team/keys cannot be read: the API is away"))
    await node.boot()
    await node.settle()
    assert (got(node, "r"), got(node, "u")) == ([], [0, 1, 2])
    node.dispatcher.each_second()
    assert told(node).reason == "the Secret team/keys cannot be read: the API is away"
    assert told(node).cause is FailureCause.SECRET_UNAVAILABLE
    node.kubernetes.secrets["keys"], node.kubernetes.problem = {"only": NEW.encode()}, ""
    await asyncio.sleep(20)
    await node.settle()
    node.dispatcher.each_second()
    assert (got(node, "r"), node.dispatcher.outstanding) == ([0, 1, 2], 0)
    assert not told(node).failures
    await node.halt()


@in_virtual_time
async def test_events_wait_over_a_restart_until_the_control_plane_finds_the_secret() -> None:
    node = waiting_for("")
    await node.boot()
    await node.settle()
    node.flush()
    await node.crash()
    await node.settle()
    assert (got(node, "r"), node.kubernetes.asked) == ([], [])
    node.routes["r"] = msgspec.structs.replace(node.routes["r"], signing=SecretVersion("keys", "7"))
    node.dispatcher.apply(node.snapshot(2))
    await node.settle()
    assert got(node, "r") == [0, 1, 2]
    await node.halt()


@in_virtual_time
async def test_a_newer_secret_does_not_make_deliveries_that_fail_look_well() -> None:
    node = waiting_for(delivery=Delivery(retry=9, backoff_policy="linear", backoff_delay=30.0))
    await node.boot()
    await node.read_tail()
    for request in list(node.subscribers.requests):
        node.subscribers.answer(request, good=request.route != "r")
    await asyncio.sleep(2)
    node.dispatcher.each_second()
    assert told(node).failures
    node.kubernetes.secrets["keys"] = {"a": NEW.encode(), "b": OLD.encode()}
    node.routes["r"] = msgspec.structs.replace(node.routes["r"], signing=SecretVersion("keys", "2"))
    node.dispatcher.apply(node.snapshot(2))
    await asyncio.sleep(6)
    node.dispatcher.each_second()
    assert (len(node.kubernetes.asked), bool(told(node).failures)) == (2, True)
    await node.halt()


@in_virtual_time
async def test_a_secret_that_is_gone_stops_the_route_and_is_forgotten() -> None:
    node = waiting_for()
    await node.boot()
    await node.settle()
    assert len(got(node, "r")) == COUNT
    lost = msgspec.structs.replace(node.routes["r"], signing=SecretVersion("keys"))
    node.dispatcher.apply(Snapshot(2, routes={"r": lost}))
    node.matched.records.append(Written(COUNT, ("r",), COUNT))
    await node.settle()
    assert len(got(node, "r")) == COUNT
    back = msgspec.structs.replace(lost, signing=SecretVersion("keys", "2"))
    node.kubernetes.secrets["keys"] = {"only": OLD.encode()}
    node.dispatcher.apply(Snapshot(3, routes={"r": back}))
    await node.settle()
    assert (got(node, "r"), len(node.kubernetes.asked)) == ([0, 1, 2, 3], 2)
    await node.halt()


@in_virtual_time
async def test_a_delivery_whose_event_is_read_again_waits_if_the_secret_is_gone_by_then() -> None:
    node = waiting_for()
    await node.boot()
    lane = node.dispatcher.lanes["r"]
    while node.position < COUNT:
        node.position += 1
        record = node.matched.at(node.position - 1)
        assert record is not None
        node.dispatcher.take([record])
    for job in lane.ready:
        node.dispatcher.memory.release(job.record)
        job.record = None
    await turns(2)
    lost = msgspec.structs.replace(node.routes["r"], signing=SecretVersion("keys"))
    node.dispatcher.apply(Snapshot(2, routes={"r": lost, "u": UNSIGNED}))
    await node.settle()
    assert got(node, "r") == []
    node.dispatcher.apply(Snapshot(3, routes=node.routes))
    await node.settle()
    assert sorted(got(node, "r")) == [0, 1, 2]
    await node.halt()


# --- certificates ---------------------------------------------------------------------------------------------------


async def test_a_client_certificate_goes_with_every_request_and_another_one_is_another() -> None:
    pair = client_of(authority("clients"), "till")
    held = {"tls.crt": pair.certificate, "tls.key": pair.key}
    delivering = Delivering(only=NEW)
    delivering.kubernetes.secrets["tls"] = held
    route = msgspec.structs.replace(UNSIGNED, client_certificate=SecretVersion("tls", "1"))
    await delivering.send(route)
    await delivering.send(route)
    await delivering.send(msgspec.structs.replace(route, client_certificate=SecretVersion("tls", "2")))
    await delivering.send(UNSIGNED)
    first, second, renewed, none = delivering.receiver.shown
    assert first is not None
    assert (first.pair, first is second, first is renewed, none) == (pair, True, False, None)


@in_virtual_time
async def test_a_client_certificate_that_openssl_does_not_take_is_waited_for_like_one_that_is_missing() -> None:
    pair = client_of(authority("clients"), "till", rsa.generate_private_key(65537, 1024))
    kubernetes = Kubernetes({"tls": {"tls.crt": pair.certificate, "tls.key": pair.key}})
    kept = kubernetes.kept()
    route = msgspec.structs.replace(UNSIGNED, client_certificate=SecretVersion("tls", "1"))
    kept.follow(route)
    await turns()
    reason = kept.lacking(route)
    assert reason is not None
    assert reason.startswith("the Secret team/tls cannot be used: the client certificate cannot be used")
    kept.forget(route.uid)
    await asyncio.sleep(2)


async def test_without_its_client_certificate_nothing_is_sent() -> None:
    delivering = Delivering(only=NEW)
    route = msgspec.structs.replace(UNSIGNED, client_certificate=SecretVersion("tls", "1"))
    with pytest.raises(Withheld, match="the Secret with the client certificate is not available") as problem:
        await delivering.sender.attempt(route, Stage.SUBSCRIBER, stored(), None)
    assert (problem.value.cause, delivering.receiver.got) == (FailureCause.SECRET_UNAVAILABLE, [])


# --- what is kept ----------------------------------------------------------------------------------------------------


@in_virtual_time
async def test_routes_share_a_secret_and_the_last_one_takes_it_along() -> None:
    kubernetes = Kubernetes({"keys": {"only": NEW.encode()}})
    kept = kubernetes.kept()
    second = msgspec.structs.replace(ROUTE, uid="s")
    kept.follow(ROUTE)
    kept.follow(second)
    await turns()
    assert len(kubernetes.asked) == 1
    kept.forget(ROUTE.uid)
    assert kept.signing(second) == (b"n" * 64,)
    kept.forget(second.uid)
    assert kept.signing(second) is None


@in_virtual_time
async def test_a_new_version_takes_over_when_it_is_here_and_the_old_one_holds_until_then() -> None:
    kubernetes = Kubernetes({"keys": {"only": OLD.encode()}})
    kept = kubernetes.kept()
    kept.follow(ROUTE)
    await turns()
    newer = msgspec.structs.replace(ROUTE, signing=SecretVersion("keys", "2"))
    kubernetes.problem = "the API is away"
    kept.follow(newer)
    await turns()
    assert (kept.signing(newer), kept.lacking(newer)) == ((b"o" * 24,), None)
    kubernetes.secrets["keys"], kubernetes.problem = {"only": NEW.encode()}, ""
    await asyncio.sleep(2)
    assert kept.signing(newer) == (b"n" * 64,)


@in_virtual_time
async def test_what_is_of_no_use_is_asked_for_until_it_is_and_told_without_what_it_holds() -> None:
    kubernetes = Kubernetes({"keys": {"only": b"whsec_hunter2"}})
    kept = kubernetes.kept()
    kept.follow(ROUTE)
    await asyncio.sleep(40)
    reason = kept.lacking(ROUTE)
    assert reason is not None
    assert reason.startswith("the Secret team/keys cannot be used: what is under its key 'only' is not of the form")
    assert "hunter2" not in reason
    assert 3 <= len(kubernetes.asked) <= 7
    kept.forget(ROUTE.uid)
    await asyncio.sleep(20)
    asked = len(kubernetes.asked)
    await asyncio.sleep(100)
    assert len(kubernetes.asked) == asked
