"""Several components in one process: ready when all are, failed when one is."""

from __future__ import annotations

import asyncio

import pytest

from penstock.engine.roles.table import run_together
from penstock.runtime.lifecycle import Lifecycle
from penstock.settings import Settings


async def test_the_whole_is_ready_when_every_part_is() -> None:
    lifecycle = Lifecycle()
    second_may = asyncio.Event()

    async def first(settings: Settings, part: Lifecycle) -> None:
        part.ready(first=1)
        await part.stopping.wait()

    async def second(settings: Settings, part: Lifecycle) -> None:
        await second_may.wait()
        part.ready(second=2)
        part.news("something happened")
        await part.stopping.wait()

    whole = asyncio.create_task(run_together({"first": first, "second": second}, Settings(), lifecycle))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert lifecycle.said == []
    second_may.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    news = {"event": "news", "text": "something happened"}
    assert lifecycle.said == [{"event": "ready", "first": 1, "second": 2}, news]
    lifecycle.stopping.set()
    await whole


async def test_a_part_that_ends_by_itself_fails_the_whole() -> None:
    async def ends(settings: Settings, part: Lifecycle) -> None:
        return

    async def stays(settings: Settings, part: Lifecycle) -> None:
        await part.stopping.wait()

    with pytest.raises(ExceptionGroup) as raised:
        await run_together({"ends": ends, "stays": stays}, Settings(), Lifecycle())
    assert raised.group_contains(RuntimeError, match="ends ended unexpectedly")
