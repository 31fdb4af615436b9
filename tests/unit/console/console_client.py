"""A browser that looks at a console without a stack."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from starlette.testclient import TestClient

from penstock.console.console import Console
from penstock.console.sessions import TokenOwner
from penstock.operations.cluster_api import UnknownToken

ORIGIN = "http://127.0.0.1:8081"
BROWSER = {"accept": "text/html", "origin": ORIGIN, "sec-fetch-site": "same-origin"}

MakeClient = Callable[..., TestClient]

OPERATOR, SHOP = "operator", "shop"
"""Tokens: of who may do everything, and of a ServiceAccount with rights in the namespace `shop` alone."""
OWNERS = {OPERATOR: TokenOwner("ann", True), SHOP: TokenOwner("system:serviceaccount:shop:dev", False)}


def know_tokens(monkeypatch: pytest.MonkeyPatch) -> dict[str, TokenOwner]:
    """Has consoles know these tokens, for as long as they are in the answer."""
    known = dict(OWNERS)

    def owner_of(self: Console, token: str) -> TokenOwner:
        if token not in known:
            raise UnknownToken("The API rejected the token: Unauthorized.")
        return known[token]

    monkeypatch.setattr(Console, "owner_of", owner_of)
    return known


def signed_in(client: TestClient, token: str | None = OPERATOR) -> TestClient:
    """The browser with a session; without a token as it is."""
    if token is not None:
        assert client.post("/login", data={"token": token}).status_code == 303
    return client
