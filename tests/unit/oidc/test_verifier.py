"""Every verdict about a token."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization

from penstock.oidc import issuers as issuers_module
from penstock.oidc.issuers import REFETCH_SECONDS, read_keys
from penstock.oidc.verifier import LONGEST_TOKEN, SKEW_SECONDS, TokenRefused
from tests.unit.oidc.oidc_world import AUDIENCE, CURVE, NEXT_CURVE, NOW, OTHER, RSA, TILL, World, listed


@pytest.fixture
async def world() -> World:
    made = World()
    assert await made.issuers.fetch_all()
    return made


def why(world: World, token: str, audience: str = AUDIENCE) -> str:
    found = world.verifier.subject(token, audience)
    assert isinstance(found, TokenRefused)
    assert not found.is_passing
    return found.reason


async def test_a_token_that_holds(world: World) -> None:
    assert world.verifier.subject(world.token(), AUDIENCE) == TILL
    assert world.verifier.subject(world.token(aud=AUDIENCE), AUDIENCE) == TILL


async def test_it_expires_whether_it_came_before_or_not(world: World) -> None:
    token = world.token()
    assert world.verifier.subject(token, AUDIENCE) == TILL
    world.now = NOW + 600 + SKEW_SECONDS
    assert why(world, token) == "the token has expired"
    assert why(world, world.token(jti="another")) == "the token has expired"


async def test_clocks_may_differ_a_little(world: World) -> None:
    world.now = NOW + 600 + SKEW_SECONDS - 1
    assert world.verifier.subject(world.token(), AUDIENCE) == TILL
    world.now = NOW - SKEW_SECONDS
    assert world.verifier.subject(world.token(), AUDIENCE) == TILL
    world.now = NOW - SKEW_SECONDS - 1
    assert why(world, world.token()) == "the token is not valid yet"


async def test_another_audience(world: World) -> None:
    told = why(world, world.token(aud=["vault"]))
    assert told == f"the token is for 'vault', not for the audience \"{AUDIENCE}\""
    assert "no audience" in why(world, world.token(aud=None))
    token = world.token()
    assert world.verifier.subject(token, AUDIENCE) == TILL
    assert "not for the audience" in why(world, token, "eventing.knative.dev/broker/shop/others")


async def test_another_issuer(world: World) -> None:
    told = why(world, world.token(iss="https://evil.example"))
    assert told == "the token cannot be verified: its issuer is not accepted here"
    assert "names no issuer" in why(world, world.token(iss=None))


def forged(header: dict[str, Any], world: World) -> str:
    parts = world.token().split(".")
    head = base64.urlsafe_b64encode(json.dumps(header).encode()).rstrip(b"=").decode()
    return f"{head}.{parts[1]}."


async def test_without_a_signature(world: World) -> None:
    for named in ("none", "None", "NONE", ""):
        assert "not how its issuer signs" in why(world, forged({"alg": named, "typ": "JWT", "kid": "a"}, world))


async def test_signed_with_the_public_key_as_if_it_were_a_secret(world: World) -> None:
    encoding, form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    secret = CURVE.public_key().public_bytes(encoding, form)
    parts = world.token().split(".")
    head = base64.urlsafe_b64encode(b'{"alg":"HS256","typ":"JWT","kid":"a"}').rstrip(b"=").decode()
    signing_input = f"{head}.{parts[1]}".encode()
    signature = jwt.get_algorithm_by_name("HS256").sign(signing_input, secret)
    token = f"{head}.{parts[1]}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"
    assert "not how its issuer signs" in why(world, token)


async def test_another_key_under_the_name_of_a_known_one(world: World) -> None:
    assert why(world, world.token(NEXT_CURVE)) == "the signature of the token is not that of its issuer"


async def test_a_changed_payload(world: World) -> None:
    head, _, signature = world.token().split(".")
    other = world.token(sub="system:serviceaccount:shop:boss").split(".")[1]
    assert why(world, f"{head}.{other}.{signature}") == "the signature of the token is not that of its issuer"


async def test_a_key_that_its_issuer_does_not_have(world: World) -> None:
    told = why(world, world.token(NEXT_CURVE, "b"))
    assert told == "the token cannot be verified: it is signed with a key that its issuer does not have"


async def test_a_new_key_is_fetched_but_not_all_the_time(world: World) -> None:
    asked = world.asked
    world.keys[next(iter(world.keys))].append(listed("b", NEXT_CURVE))
    token = world.token(NEXT_CURVE, "b")
    assert "does not have" in why(world, token)
    world.now += REFETCH_SECONDS
    passing = world.verifier.subject(token, AUDIENCE)
    assert isinstance(passing, TokenRefused)
    assert passing.is_passing
    assert world.asked == asked
    assert await world.issuers.fetch_all()
    assert world.verifier.subject(token, AUDIENCE) == TILL
    assert "does not have" in why(world, world.token(NEXT_CURVE, "c"))


async def test_a_key_that_is_gone_takes_its_tokens_with_it(world: World) -> None:
    token = world.token()
    assert world.verifier.subject(token, AUDIENCE) == TILL
    world.keys[next(iter(world.keys))] = [listed("b", NEXT_CURVE)]
    assert await world.issuers.fetch_all()
    assert "does not have" in why(world, token)


async def test_two_keys_count_during_a_rotation(world: World) -> None:
    world.keys[next(iter(world.keys))].append(listed("b", NEXT_CURVE))
    assert await world.issuers.fetch_all()
    assert world.verifier.subject(world.token(), AUDIENCE) == TILL
    assert world.verifier.subject(world.token(NEXT_CURVE, "b"), AUDIENCE) == TILL


async def test_an_issuer_that_does_not_answer_keeps_its_keys(world: World) -> None:
    world.answers = False
    assert not await world.issuers.fetch_all()
    assert world.verifier.subject(world.token(), AUDIENCE) == TILL


async def test_before_the_keys_are_there_nobody_can_tell() -> None:
    world = World()
    found = world.verifier.subject(world.token(), AUDIENCE)
    assert isinstance(found, TokenRefused)
    assert found.is_passing
    assert "being fetched" in found.reason


async def test_another_issuer_that_is_taken(world: World) -> None:
    token = world.token(RSA, "r", "RS256", iss=OTHER, sub="jane@example.org")
    assert world.verifier.subject(token, AUDIENCE) == "jane@example.org"


async def test_another_issuer_cannot_speak_for_service_accounts(world: World) -> None:
    told = why(world, world.token(RSA, "r", "RS256", iss=OTHER))
    assert "cannot speak for" in told


async def test_a_key_of_one_issuer_is_none_of_another(world: World) -> None:
    assert "does not have" in why(world, world.token(RSA, "r", "RS256"))


async def test_a_token_that_names_no_key(world: World) -> None:
    assert world.verifier.subject(world.token(kid=None), AUDIENCE) == TILL
    world.keys[next(iter(world.keys))].append(listed("b", NEXT_CURVE))
    assert await world.issuers.fetch_all()
    assert "does not have" in why(world, world.token(kid=None))


@pytest.mark.parametrize("token", ["", "secret", "a.b", "a.b.c", "e30.e30.", "..", "\x00.\x00.\x00"])
async def test_what_is_no_token(world: World, token: str) -> None:
    assert why(world, token)


async def test_a_token_that_is_too_long(world: World) -> None:
    assert why(world, "a" * (LONGEST_TOKEN + 1)) == "the token is too long"


@pytest.mark.parametrize(
    "claims", [{"exp": None}, {"exp": "soon"}, {"exp": True}, {"nbf": "x"}, {"sub": None}, {"sub": ""}]
)
async def test_claims_that_say_nothing(world: World, claims: dict[str, Any]) -> None:
    assert why(world, world.token(**claims))


def test_only_public_keys_are_taken_from_a_key_set() -> None:
    keys = {
        "keys": [
            {"kty": "oct", "kid": "s", "k": "c2VjcmV0", "alg": "HS256"},
            {"kty": "EC", "kid": "broken"},
            {**listed("e", CURVE), "use": "enc"},
            "nonsense",
            listed("a", CURVE),
        ]
    }
    assert list(read_keys(keys)) == ["a"]
    assert read_keys({"keys": None}) == {}


async def test_keys_are_fetched_once_they_are_wanted_and_until_they_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(issuers_module, "PAUSE_SECONDS", (0.0, 0.0))
    world = World()
    world.answers = False
    running = asyncio.create_task(world.issuers.run())
    await asyncio.sleep(0)
    assert world.asked == 0
    world.issuers.want()
    while world.asked < 4:  # noqa: ASYNC110  # the loop under test is what it waits for
        await asyncio.sleep(0)
    world.answers = True
    while isinstance(world.verifier.subject(world.token(), AUDIENCE), TokenRefused):  # noqa: ASYNC110  # likewise
        await asyncio.sleep(0)
    asked = world.asked
    for _ in range(20):
        await asyncio.sleep(0)
    assert world.asked == asked
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
