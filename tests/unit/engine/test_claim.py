"""Having a role: at once, after standing by, or not at all; and given back when the work is over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from penstock.engine.roles import claim
from penstock.engine.roles.claim import hold_role
from penstock.runtime.errors import UserError
from penstock.runtime.lifecycle import Lifecycle
from penstock.settings import Settings
from tests.waiting import until

SETTINGS = Settings(kafka="k:1")


class ClaimDouble:
    """A claim that is decided by the test."""

    def __init__(self, epoch_future: asyncio.Future[int], begin: Callable[[asyncio.Future[int]], None]) -> None:
        self.epoch_future, self._begin, self.released = epoch_future, begin, False

    def start(self) -> None:
        self._begin(self.epoch_future)

    def release(self) -> None:
        self.released = True


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[ClaimDouble]:
    """The claims that were made; each waits for the test unless it says otherwise."""
    found: list[ClaimDouble] = []

    def make(role: str, settings: Settings, epoch_future: asyncio.Future[int]) -> ClaimDouble:
        found.append(ClaimDouble(epoch_future, lambda epoch_future: None))
        return found[-1]

    monkeypatch.setattr(claim, "_claim", make)
    monkeypatch.setattr(claim, "SOON_SECONDS", 0.0)
    return found


async def test_one_that_stands_by_says_so_until_it_has_the_role_and_gives_it_back(made: list[ClaimDouble]) -> None:
    lifecycle, seen = Lifecycle(), list[int | None]()

    async def work() -> None:
        async with hold_role("pipeline", SETTINGS, lifecycle) as epoch:
            seen.append(epoch)
            assert not made[0].released

    working = asyncio.create_task(work())
    await until(lambda: lifecycle.stands_by, every=0)
    assert lifecycle.unready() is None
    made[0].epoch_future.set_result(7)
    await working
    assert seen == [7]
    assert lifecycle.unready() == "it takes over"
    assert made[0].released


async def test_one_that_is_told_to_stop_while_it_stands_by_has_nothing(made: list[ClaimDouble]) -> None:
    lifecycle = Lifecycle()
    lifecycle.stopping.set()
    async with hold_role("pipeline", SETTINGS, lifecycle) as epoch:
        assert epoch is None
    assert made[0].released


async def test_a_claim_that_cannot_be_made_ends_the_role(
    made: list[ClaimDouble], monkeypatch: pytest.MonkeyPatch
) -> None:
    lifecycle = Lifecycle()

    async def work() -> None:
        async with hold_role("pipeline", SETTINGS, lifecycle):
            raise AssertionError("it has no role")

    working = asyncio.create_task(work())
    await until(lambda: bool(made) and lifecycle.stands_by, every=0)
    made[0].epoch_future.set_exception(UserError("The Lease cannot be used."))
    with pytest.raises(UserError, match="The Lease cannot be used"):
        await working
    assert made[0].released
