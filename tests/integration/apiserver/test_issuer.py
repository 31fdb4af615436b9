"""The way of a token: the data plane asks the API for it, and the ingress knows it by the keys that the API shows."""

from __future__ import annotations

import asyncio
import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.oidc.issuers import Issuers, NotFetched, fetch_from, fetch_from_api
from penstock.oidc.tokens import Issued, NoToken, TokenRequests, WantedToken
from penstock.oidc.verifier import TokenRefused, Verifier
from penstock.settings import Settings
from tests.integration.apiserver.api_process import Server


async def asked(settings: Settings, wanted: WantedToken) -> Issued:
    requests = TokenRequests(settings)
    try:
        return await requests(wanted)
    finally:
        await requests.close()


def made(server: Server, namespace: str) -> Settings:
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    assert server.call("POST", accounts, {"metadata": {"name": "till"}}).status == 201
    return Settings(data_dir=server.data_dir)


def test_a_token_that_the_data_plane_gets_is_known_by_the_keys_of_the_api(server: Server, namespace: str) -> None:
    settings = made(server, namespace)

    async def judged() -> tuple[str | TokenRefused, str | TokenRefused]:
        issued = await asked(settings, WantedToken(namespace, "till", "orders"))
        issuers = Issuers({"api": lambda: fetch_from_api(settings)})
        assert await issuers.fetch_all()
        verifier = Verifier(issuers)
        return verifier.subject(issued.token, "orders"), verifier.subject(issued.token, "refunds")

    own, other = asyncio.run(judged())
    assert own == f"system:serviceaccount:{namespace}:till"
    assert isinstance(other, TokenRefused)


def test_an_account_that_is_not_there_has_no_token(server: Server, namespace: str) -> None:
    settings = made(server, namespace)
    with pytest.raises(NoToken, match=r'serviceaccounts "nobody" not found'):
        asyncio.run(asked(settings, WantedToken(namespace, "nobody", "orders")))


def test_the_data_plane_may_do_nothing_else(server: Server, namespace: str) -> None:
    allowed = server.kubectl("auth", "can-i", "--list", "--as", DATA_PLANE, "-n", namespace)
    assert "serviceaccounts/token" in allowed
    assert "no" in server.kubectl("auth", "can-i", "list", "secrets", "--as", DATA_PLANE, "-A", ok=False)


DATA_PLANE = "system:serviceaccount:knative-eventing:eventing-data-plane"


@pytest.fixture
def told() -> Iterator[tuple[str, dict[str, Any]]]:
    """Another issuer: its address, and what it answers, by path."""
    answers: dict[str, Any] = {}

    class Answering(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(answers.get(self.path)).encode()
            self.send_response(200 if self.path in answers else 404)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    serving = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    thread = threading.Thread(target=serving.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{serving.server_port}", answers
    serving.shutdown()
    thread.join()
    serving.server_close()


DISCOVERY = "/.well-known/openid-configuration"


def test_another_issuer_must_be_who_it_was_asked_as(server: Server, told: tuple[str, dict[str, Any]]) -> None:
    url, answers = told
    keys = server.call("GET", "/openid/v1/jwks").json()
    answers["/keys"] = keys
    answers[DISCOVERY] = {"issuer": url, "jwks_uri": f"{url}/keys"}
    assert asyncio.run(fetch_from(url)).keys.keys() == {one["kid"] for one in keys["keys"]}
    answers[DISCOVERY] = {"issuer": "https://somebody.else", "jwks_uri": f"{url}/keys"}
    with pytest.raises(NotFetched, match=r"it calls itself 'https://somebody\.else'"):
        asyncio.run(fetch_from(url))
    answers[DISCOVERY] = ["nonsense"]
    with pytest.raises(NotFetched, match="not a JSON object"):
        asyncio.run(fetch_from(url))
    answers.clear()
    with pytest.raises(NotFetched, match="404"):
        asyncio.run(fetch_from(url))
