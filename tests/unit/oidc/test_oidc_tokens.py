"""Tokens that deliveries carry: asked for once, renewed in time, and never in the way of those that still hold."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from penstock.oidc.names import account_of, audience_of, child_name, subject_of
from penstock.oidc.tokens import AGAIN_SECONDS, AccountTokens, Issued, NoToken, WantedToken

WANTED = WantedToken("shop", "orders-oidc", "aud")


class Api:
    """What the Kubernetes API would answer."""

    def __init__(self) -> None:
        self.now, self.asked, self.problem = 0.0, 0, ""
        self.tokens = AccountTokens(self._ask, self._start, lambda: self.now)
        self.tasks: list[asyncio.Task[Any]] = []

    def _start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[Any]:
        task = asyncio.create_task(work, name=name)
        self.tasks.append(task)
        return task

    async def _ask(self, wanted: WantedToken) -> Issued:
        self.asked += 1
        await asyncio.sleep(0)
        if self.problem:
            raise NoToken(self.problem)
        return Issued(f"{wanted.audience}-{self.asked}", self.now + 100)

    async def settled(self) -> None:
        await asyncio.gather(*self.tasks)


async def test_many_who_want_the_same_token_ask_once() -> None:
    api = Api()
    assert set(await asyncio.gather(*(api.tokens.token(WANTED) for _ in range(50)))) == {"aud-1"}
    assert await api.tokens.token(WANTED._replace(audience="other")) == "other-2"


async def test_a_token_is_renewed_before_it_ends_while_the_old_one_serves() -> None:
    api = Api()
    await api.tokens.token(WANTED)
    api.now = 79
    assert (await api.tokens.token(WANTED), api.asked) == ("aud-1", 1)
    api.now = 81
    assert await api.tokens.token(WANTED) == "aud-1"
    await api.settled()
    assert await api.tokens.token(WANTED) == "aud-2"


async def test_an_api_that_is_away_is_not_felt_while_a_token_holds() -> None:
    api = Api()
    await api.tokens.token(WANTED)
    api.now, api.problem = 90, "away"
    assert await api.tokens.token(WANTED) == "aud-1"
    await api.settled()
    api.now = 101
    with pytest.raises(NoToken, match="away"):
        await api.tokens.token(WANTED)
    asked = api.asked
    with pytest.raises(NoToken, match="away"):
        await api.tokens.token(WANTED)
    assert api.asked == asked
    api.now, api.problem = 101 + AGAIN_SECONDS, ""
    assert (await api.tokens.token(WANTED)).startswith("aud-")


async def test_a_token_that_was_not_taken_is_asked_for_anew() -> None:
    api = Api()
    assert await api.tokens.token(WANTED) == "aud-1"
    api.tokens.forget(WANTED)
    assert await api.tokens.token(WANTED) == "aud-2"


def test_names_as_knative_forms_them() -> None:
    assert audience_of("eventing.knative.dev", "Broker", "shop", "orders") == "eventing.knative.dev/broker/shop/orders"
    assert account_of("eventing.knative.dev", "Trigger", "till") == "till-oidc-eventing.knative.dev-trigger"
    assert subject_of("shop", "till") == "system:serviceaccount:shop:till"


def test_names_that_are_too_long_are_cut_and_stay_apart() -> None:
    long = account_of("eventing.knative.dev", "Trigger", "a" * 40)
    assert len(long) <= 63
    assert long.startswith("a" * 31)
    assert long != account_of("eventing.knative.dev", "Trigger", "a" * 41)
    assert child_name("p" * 60, "-dispatcher").endswith("-dispatcher")
    assert len(child_name("p" * 60, "-dispatcher")) == 63
