"""Deliveries to addresses with an audience carry a token; others carry none."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from penstock.contract.attempts import FailureCause
from penstock.contract.names import NameTable
from penstock.contract.routes import Delivery, Endpoint, Route
from penstock.dispatcher.cursors.cursor import Stage
from penstock.dispatcher.delivery.attempt import AttemptResult, AttemptSender
from penstock.dispatcher.delivery.credentials import DeliveryCredentials
from penstock.dispatcher.delivery.replies import ReplyWriter
from penstock.dispatcher.dispatcher import Dispatcher
from penstock.dispatcher.http.client import SubscriberClient, Unsendable
from penstock.dispatcher.http.connection import NoResponse, SubscriberResponse
from penstock.dispatcher.http.outcome import Outcome, Withheld
from penstock.dispatcher.matched_record import Matched
from penstock.observability.trace import configure
from penstock.oidc.tokens import AccountTokens, Issued, NoToken, WantedToken
from tests.unit.dispatcher.dispatcher_double import Node, Topic, Written
from tests.unit.dispatcher.secrets_double import Kubernetes
from tests.unit.dispatcher.virtual_time import in_virtual_time

TRIGGER = Route("t", "Trigger", "team", "t", "b", subscriber=Endpoint("http://s/", audience="sink"), account="t-oidc")
STORED = [
    (f"ce_{name}", value) for name, value in (("specversion", b"1.0"), ("id", b"0"), ("source", b"/"), ("type", b"t"))
]


class Subscriber:
    """Remembers what it was sent."""

    def __init__(self) -> None:
        self.heads: list[bytes] = []
        self.answer: int | Exception = 202

    async def post(self, _endpoint: Endpoint, _names: Any, lines: bytes, *_: Any, **__: Any) -> SubscriberResponse:
        self.heads.append(lines)
        if isinstance(self.answer, Exception):
            raise self.answer
        return SubscriberResponse(self.answer, {}, b"", 1024)


class Deliveries:
    """A sender, its subscriber, and an API that gives tokens."""

    def __init__(self) -> None:
        self.subscriber, self.asked, self.problem = Subscriber(), list[WantedToken](), ""
        self.never = False
        self.made = 0
        self.sender = AttemptSender(
            cast("SubscriberClient", self.subscriber),
            cast("ReplyWriter", None),
            configure("test"),
            1.0,
            1024,
            credentials=DeliveryCredentials(self._tokens, Kubernetes().kept()),
        )

    def _tokens(self) -> AccountTokens:
        self.made += 1
        return AccountTokens(self._ask, self._start)

    def _start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[Any]:
        return asyncio.create_task(work, name=name)

    async def _ask(self, wanted: WantedToken) -> Issued:
        self.asked.append(wanted)
        if self.problem:
            raise NoToken(self.problem, never=self.never)
        return Issued(f"token{len(self.asked)}", 1e12)

    async def attempt(self, route: Route) -> AttemptResult:
        record = Matched(0, 0, 0, 0, routes=("t",), raw=STORED, value=b"")
        return await self.sender.attempt(route, Stage.SUBSCRIBER, record, None)


async def test_the_token_is_of_the_routes_account_and_for_the_subscribers_audience() -> None:
    stage = Deliveries()
    for _ in range(3):
        assert (await stage.attempt(TRIGGER)).verdict.outcome is Outcome.DELIVERED
    assert stage.asked == [WantedToken("team", "t-oidc", "sink")]
    assert all(head.endswith(b"authorization: Bearer token1\r\n") for head in stage.subscriber.heads)


@pytest.mark.parametrize(
    "route",
    [msgspec.structs.replace(TRIGGER, account=""), msgspec.structs.replace(TRIGGER, subscriber=Endpoint("http://s/"))],
)
async def test_without_oidc_or_audience_nothing_is_asked_for(route: Route) -> None:
    stage = Deliveries()
    assert (await stage.attempt(route)).verdict.outcome is Outcome.DELIVERED
    assert (stage.made, stage.asked) == (0, [])
    assert b"authorization" not in stage.subscriber.heads[0].lower()


async def test_a_token_that_was_not_taken_is_replaced() -> None:
    stage = Deliveries()
    stage.subscriber.answer = 401
    await stage.attempt(TRIGGER)
    await stage.attempt(TRIGGER)
    assert [head.split(b"Bearer ")[1] for head in stage.subscriber.heads] == [b"token1\r\n", b"token2\r\n"]


async def test_a_token_that_there_will_never_be_is_not_waited_for() -> None:
    stage = Deliveries()
    stage.problem, stage.never = "it would be one for the Kubernetes API itself", True
    result = await stage.attempt(TRIGGER)
    assert (result.verdict.outcome, result.verdict.reason) == (Outcome.RETRYABLE, stage.problem)
    assert stage.subscriber.heads == []


@pytest.mark.parametrize(
    "changes",
    [
        {"account": "../../knative-eventing/serviceaccounts/eventing-controller"},
        {"subscriber": Endpoint("http://s/", audience="https://kubernetes.default.svc.cluster.local")},
    ],
)
async def test_no_token_of_another_namespace_or_for_the_api_is_asked_for(changes: dict[str, Any]) -> None:
    stage = Deliveries()
    result = await stage.attempt(msgspec.structs.replace(TRIGGER, **changes))
    assert result.verdict.outcome is Outcome.RETRYABLE
    assert (stage.made, stage.asked, stage.subscriber.heads) == (0, [], [])


WITH_PASSWORD = msgspec.structs.replace(
    TRIGGER, subscriber=Endpoint("https://user:p4ss@host/path"), account="", reply=Endpoint("http://user:p4ss@r/")
)


@pytest.mark.parametrize("answer", [202, 409, 503, NoResponse("refused"), Unsendable("not sent")])
async def test_the_password_of_a_url_is_in_nothing_that_is_told_of_an_attempt(answer: int | Exception) -> None:
    stage = Deliveries()
    stage.subscriber.answer = answer
    result = await stage.attempt(WITH_PASSWORD)
    assert result.url == "https://***@host/path"
    job = SimpleNamespace(lane=SimpleNamespace(route=WITH_PASSWORD), delivery=SimpleNamespace(attempt=1))
    failure = Dispatcher._failure(cast("Dispatcher", None), cast("Any", job), result, "HTTP status 409")
    assert "p4ss" not in str(failure)
    assert failure.subscriber == "https://***@host/path"


@pytest.mark.parametrize(
    "url", ["https://user:p4ss@host:port/", "ftp://user:p4ss@host", "https://user:p4ss@ho\u2100st/"]
)
async def test_the_password_of_an_address_that_cannot_be_used_is_not_told(url: str) -> None:
    client = cast("Any", object.__new__(SubscriberClient))
    client._names, client._left_to_dns = None, {}
    with pytest.raises(Unsendable) as refused:
        client._address(Endpoint(url), NameTable(), "", None)
    assert "p4ss" not in str(refused.value)
    assert str(refused.value).startswith(url.replace("user:p4ss", "***"))


@pytest.mark.parametrize("problem", ["the API is away", 'serviceaccounts "t-oidc" not found', "forbidden"])
async def test_while_there_is_no_token_no_attempt_is_made(problem: str) -> None:
    stage = Deliveries()
    stage.problem = problem
    for _ in range(2):  # also while it is not asked again
        with pytest.raises(Withheld, match=problem) as withheld:
            await stage.attempt(TRIGGER)
        assert withheld.value.cause is FailureCause.TOKEN_UNAVAILABLE
    assert stage.subscriber.heads == []


@in_virtual_time
async def test_deliveries_wait_without_losing_an_attempt_until_the_api_is_back() -> None:
    events = [Written(origin, ("t",), origin) for origin in range(3)]
    node = Node({"t": TRIGGER}, Topic({}, list(events)), Topic({}, list(events)))
    await node.boot()
    node.subscribers.withheld = "the API is away"
    for _ in events:
        await node.read_tail()
    await asyncio.sleep(3600)
    node.dispatcher.each_second()
    assert (node.seen, node.dispatcher.outstanding) == ([], 3)
    told = [standing for standing in node.reports.standings if standing.route == "t"][-1]
    assert (told.reason, told.cause, told.url) == ("the API is away", FailureCause.TOKEN_UNAVAILABLE, "http://s/")
    assert told.failures == 1, "no attempt was made, so none is counted"
    node.subscribers.withheld = ""
    await asyncio.sleep(10)
    await node.settle()
    assert sorted(node.seen) == [("t", 0), ("t", 1), ("t", 2)]
    assert node.dispatcher.outstanding == 0
    await node.halt()


@in_virtual_time
async def test_what_a_dead_letter_waits_for_is_said_of_the_sink_and_keeps_no_other_event_waiting() -> None:
    policy = Delivery(dead_letter=Endpoint("http://sink/"))
    route = msgspec.structs.replace(TRIGGER, delivery=policy)
    events = [Written(origin, ("t",), origin) for origin in range(2)]
    node = Node({"t": route}, Topic({}, list(events)), Topic({}, list(events)))
    await node.boot()
    await node.read_tail()
    node.subscribers.withheld = "DNS is away"
    await node.answer(0, good=False)
    await asyncio.sleep(30)
    node.dispatcher.each_second()
    told = [standing for standing in node.reports.standings if standing.route == "t"][-1]
    assert (told.reason, told.url) == ("DNS is away", "http://sink/")
    assert not node.dispatcher.lanes["t"].unreachable
    node.subscribers.withheld = ""
    await node.settle()
    assert node.seen == [("t", 0), ("t", 0), ("t", 1)] or node.seen == [("t", 0), ("t", 1), ("t", 0)]
    await node.halt()


@in_virtual_time
async def test_deliveries_that_are_held_leave_their_memory_to_others() -> None:
    events = [Written(origin, ("t",), origin) for origin in range(800)]
    node = Node({"t": TRIGGER}, Topic({}, list(events)), Topic({}, list(events)), {"delivery_memory_mib": 1})
    await node.boot()
    node.subscribers.withheld = "the API is away"
    node.dispatcher.take([record for offset in range(800) if (record := node.matched.at(offset)) is not None])
    assert node.dispatcher.memory.tight
    await asyncio.sleep(2)
    assert node.dispatcher.memory.held
    assert not node.dispatcher.memory.tight
    await node.halt()
