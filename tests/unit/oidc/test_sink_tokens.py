"""Who is behind a token that comes to a sink of the control plane, whose keys are fetched with the first one."""

from __future__ import annotations

import asyncio
import time

import pytest

from penstock.controllers.sinks import requests
from penstock.controllers.sinks.requests import SinkTokens
from penstock.oidc import issuers
from penstock.oidc.verifier import TokenRefused
from penstock.runtime.tasks import TaskScope
from penstock.settings import Settings
from tests.unit.oidc.oidc_world import AUDIENCE, TILL, World


async def test_the_first_token_waits_for_the_keys_of_its_issuer(monkeypatch: pytest.MonkeyPatch) -> None:
    world, owner, now = World(), TaskScope(), time.time()
    monkeypatch.setattr(issuers, "issuers_of", lambda settings: world.issuers)
    subject = SinkTokens(Settings(), owner).subject
    try:
        assert world.asked == 0
        async with asyncio.timeout(60):
            assert await subject(world.token(exp=now + 600, nbf=now), AUDIENCE) == TILL
            other = await subject(world.token(exp=now + 600, nbf=now), "other")
            expired = await subject(world.token(exp=now - 600, nbf=0), AUDIENCE)
    finally:
        await owner.close()
    assert isinstance(other, TokenRefused)
    assert expired == TokenRefused("the token has expired")


async def test_a_token_whose_keys_do_not_come_is_told_to_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    world, owner = World(), TaskScope()
    world.answers = False
    monkeypatch.setattr(requests, "KEYS_SECONDS", 0.2)
    monkeypatch.setattr(issuers, "issuers_of", lambda settings: world.issuers)
    try:
        found = await SinkTokens(Settings(), owner).subject(world.token(), AUDIENCE)
    finally:
        await owner.close()
    assert isinstance(found, TokenRefused)
    assert found.is_passing
