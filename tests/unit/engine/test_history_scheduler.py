"""The keeper of the history waits for the first of several things, and can be stopped at any moment of that."""

from __future__ import annotations

import asyncio

import pytest

from penstock.engine.history.scheduler import _first_of


async def test_the_first_that_ends_is_told_and_the_others_are_cancelled() -> None:
    ended = list[str]()

    async def other() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("other")

    assert await _first_of(other(), asyncio.sleep(0)) == 1
    assert ended == ["other"]


async def test_a_cancellation_while_the_others_end_is_not_lost() -> None:
    ending, may_end = asyncio.Event(), asyncio.Event()

    async def slow_to_end() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ending.set()
            await may_end.wait()

    waiting = asyncio.create_task(_first_of(asyncio.sleep(0), slow_to_end()))
    await ending.wait()
    waiting.cancel()
    await asyncio.sleep(0)
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
