"""Tokens that deliveries carry: asked for once, renewed in time, and never in the way of those that still hold."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import httpx2
import pytest

from penstock.kube.client import AsyncClient
from penstock.kube.config import config_of
from penstock.oidc import tokens as tokens_module
from penstock.oidc.names import account_of, audience_of, child_name, subject_of
from penstock.oidc.tokens import RETRY_SECONDS, AccountTokens, Issued, NoToken, TokenRequests, WantedToken, why_never
from penstock.settings import Settings

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
    api.now, api.problem = 101 + RETRY_SECONDS, ""
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


@pytest.mark.parametrize(
    "audience",
    [
        "https://kubernetes.default.svc.cluster.local",
        "https://kubernetes.default.svc",
        "https://Kubernetes.default.svc.corp.example:443/",
        "kubernetes.default.svc",
        "kubernetes",
    ],
)
def test_a_token_for_the_kubernetes_api_is_never_asked_for(audience: str) -> None:
    assert "it would be one for the Kubernetes API itself" in why_never(WANTED._replace(audience=audience))


@pytest.mark.parametrize(
    "audience", ["aud", "eventing.knative.dev/broker/ns/kubernetes", "https://kubernetes.example.com"]
)
def test_tokens_for_other_audiences_are(audience: str) -> None:
    assert why_never(WANTED._replace(audience=audience)) == ""


@pytest.mark.parametrize("field", ["namespace", "account"])
@pytest.mark.parametrize("name", ["../../knative-eventing/serviceaccounts/eventing-controller", "..", "a/b", "A", ""])
def test_a_token_of_what_is_not_the_name_of_an_account_is_never_asked_for(field: str, name: str) -> None:
    assert "cannot be the name of a ServiceAccount" in why_never(WANTED._replace(**{field: name}))


async def test_the_audience_that_the_api_calls_its_issuer_gets_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(f"{request.method} {request.url.path}")
        if request.method == "GET":
            return httpx2.Response(200, json={"issuer": "https://issuer.example/cluster"})
        return httpx2.Response(201, json={"status": {"token": "t", "expirationTimestamp": "2026-01-01T00:00:00Z"}})

    made = AsyncClient(config_of("https://api"), transport=httpx2.MockTransport(answer))
    monkeypatch.setattr(tokens_module, "connect", lambda _: made)
    requests = TokenRequests(Settings())
    for _ in range(2):
        assert (await requests(WANTED)).token == "t"
    with pytest.raises(NoToken, match="Kubernetes API itself"):
        await requests(WANTED._replace(audience="https://issuer.example/cluster/"))
    await requests.close()
    post = "POST /api/v1/namespaces/shop/serviceaccounts/orders-oidc/token"
    assert asked == ["GET /.well-known/openid-configuration", post, post]
