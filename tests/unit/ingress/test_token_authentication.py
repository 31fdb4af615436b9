"""Requests with tokens: what is answered where a target has an audience."""

from __future__ import annotations

import time
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from penstock.contract.routes import Access, Target
from penstock.ingress.authorization import SenderAuthorizer
from penstock.ingress.targets import TargetTable
from penstock.ingress.token_authentication import TokenAuthenticator
from penstock.oidc.issuers import Fetched, Issuers, read_keys
from penstock.oidc.verifier import Verifier
from tests.unit.ingress.ingress_requests import EVENT, TARGETS, Client, Response

ISSUER, AUDIENCE = "https://issuer", "eventing.knative.dev/broker/shop/orders"
TILL = "system:serviceaccount:shop:till"
KEY = ec.generate_private_key(ec.SECP256R1())
BROKER = Target("b-uid", "Broker", "shop", "orders", ("/shop/orders",), access=Access(AUDIENCE))


async def fetched() -> Fetched:
    return Fetched(ISSUER, read_keys({"keys": [{"kid": "k", **ECAlgorithm.to_jwk(KEY.public_key(), as_dict=True)}]}))


def token(**claims: Any) -> str:
    said = {"iss": ISSUER, "sub": TILL, "aud": AUDIENCE, "exp": time.time() + 600, **claims}
    return jwt.encode(said, KEY, algorithm="ES256", headers={"kid": "k"})


@pytest.fixture
async def client() -> Client:
    issuers = Issuers({ISSUER: fetched})
    assert await issuers.fetch_all()
    made = Client(authorizer=SenderAuthorizer([TokenAuthenticator(Verifier(issuers))]))
    made.app.targets = TargetTable([BROKER, TARGETS[1]])
    return made


def send(client: Client, authorization: str | None, path: str = "/shop/orders") -> Response:
    given = {} if authorization is None else {"authorization": authorization}
    return client.send(path, {**EVENT, **given})


async def test_a_token_for_the_audience_is_taken_and_kept_nowhere(client: Client) -> None:
    shown = token()
    assert send(client, f"Bearer {shown}").status == 202
    assert send(client, f"bearer  {shown}").status == 202
    stored = [value for record in client.log.records for _, value in record.headers]
    assert not any(shown.encode() in (value or b"") for value in stored)


async def test_without_a_token_or_with_another_scheme(client: Client) -> None:
    for authorization in (None, "Basic dXNlcjpwYXNz", "Bearer", ""):
        assert send(client, authorization).status == 401
    assert client.log.records == []


@pytest.mark.parametrize(
    ("claims", "told"),
    [
        ({"exp": 1}, "the token has expired"),
        ({"aud": "other"}, f"the token is for 'other', not for the audience \"{AUDIENCE}\""),
        ({"iss": "https://evil"}, "its issuer is not accepted here"),
    ],
)
async def test_a_token_that_does_not_hold_is_answered_with_the_reason(
    client: Client, claims: dict[str, Any], told: str
) -> None:
    answer = send(client, f"Bearer {token(**claims)}")
    assert (answer.status, client.log.records) == (401, [])
    assert told in answer.body.decode()
    assert answer.headers["www-authenticate"] == 'Bearer realm="penstock", error="invalid_token"'


async def test_who_is_known_and_may_not_send_gets_403(client: Client) -> None:
    answer = send(client, f"Bearer {token(sub='system:serviceaccount:elsewhere:till')}")
    assert answer.status == 403
    assert b"allow-same-namespace" in answer.body


async def test_a_target_without_an_audience_is_open(client: Client) -> None:
    assert send(client, None, "/channels/shop/pipe").status == 202
    assert send(client, "Bearer nonsense", "/channels/shop/pipe").status == 202


async def test_before_the_keys_are_there_the_sender_is_asked_to_come_again() -> None:
    client = Client(authorizer=SenderAuthorizer([TokenAuthenticator(Verifier(Issuers({ISSUER: fetched})))]))
    client.app.targets = TargetTable([BROKER])
    answer = send(client, f"Bearer {token()}")
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")


async def test_a_target_whose_access_changes_is_judged_by_the_newest(client: Client) -> None:
    shown = f"Bearer {token()}"
    assert send(client, shown).status == 202
    closed = Target("b-uid", "Broker", "shop", "orders", ("/shop/orders",), access=Access(AUDIENCE, (), "deny-all"))
    client.app.targets = TargetTable([closed], client.app.targets)
    assert send(client, shown).status == 403
