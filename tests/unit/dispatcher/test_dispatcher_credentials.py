"""Deliveries to addresses with an audience carry a token; others carry none."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, cast

import msgspec
import pytest
from secrets_double import Kubernetes

from penstock.contract.routes import Endpoint, Route
from penstock.dispatcher.cursors.cursor import Stage
from penstock.dispatcher.delivery import credentials as credentials_module
from penstock.dispatcher.delivery.attempt import AttemptResult, AttemptSender
from penstock.dispatcher.delivery.credentials import DeliveryCredentials
from penstock.dispatcher.delivery.replies import ReplyWriter
from penstock.dispatcher.http.client import SubscriberClient
from penstock.dispatcher.http.connection import SubscriberResponse
from penstock.dispatcher.http.outcome import Outcome
from penstock.dispatcher.matched.record import Matched
from penstock.observability.trace import configure
from penstock.oidc.tokens import AccountTokens, Issued, NoToken, WantedToken

TRIGGER = Route("t", "Trigger", "team", "t", "b", subscriber=Endpoint("http://s/", audience="sink"), account="t-oidc")
STORED = [
    (f"ce_{name}", value) for name, value in (("specversion", b"1.0"), ("id", b"0"), ("source", b"/"), ("type", b"t"))
]


class Subscriber:
    """Remembers what it was sent."""

    def __init__(self) -> None:
        self.heads: list[bytes] = []
        self.status = 202

    async def post(self, _endpoint: Endpoint, _names: Any, lines: bytes, *_: Any, **__: Any) -> SubscriberResponse:
        self.heads.append(lines)
        return SubscriberResponse(self.status, {}, b"", False)


class Deliveries:
    """A sender, its subscriber, and an API that gives tokens."""

    def __init__(self) -> None:
        self.subscriber, self.asked, self.problem = Subscriber(), list[WantedToken](), ""
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
            raise NoToken(self.problem)
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
    stage.subscriber.status = 401
    await stage.attempt(TRIGGER)
    await stage.attempt(TRIGGER)
    assert [head.split(b"Bearer ")[1] for head in stage.subscriber.heads] == [b"token1\r\n", b"token2\r\n"]


async def test_without_a_token_nothing_is_sent_and_it_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials_module, "PATIENCE_SECONDS", 0.0)
    stage = Deliveries()
    stage.problem = "the API is away"
    result = await stage.attempt(TRIGGER)
    assert (result.verdict.outcome, result.verdict.reason) == (Outcome.RETRYABLE, "the API is away")
    assert stage.subscriber.heads == []
