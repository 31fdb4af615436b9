"""Races among coroutines, and what a component waits for."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from penstock.runtime.lifecycle import Lifecycle, first


async def fail() -> None:
    raise ZeroDivisionError("on purpose")


async def forever(ended: list[str] | None = None) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        if ended is not None:
            ended.append("cancelled")


async def test_the_first_to_end_ends_the_others_and_its_failure_is_raised() -> None:
    ended: list[str] = []
    await first(asyncio.sleep(0), forever(ended))
    assert ended == ["cancelled"]
    with pytest.raises(ZeroDivisionError):
        await first(forever(ended), fail())
    assert ended == ["cancelled"] * 2


async def test_what_is_cancelled_from_outside_cancels_all_of_them() -> None:
    ended: list[str] = []
    race = asyncio.create_task(first(forever(ended), forever(ended)))
    for _ in range(3):
        await asyncio.sleep(0)
    race.cancel()
    with pytest.raises(asyncio.CancelledError):
        await race
    assert ended == ["cancelled"] * 2


async def test_a_file_is_waited_for_until_told_to_stop(tmp_path: Path) -> None:
    lifecycle = Lifecycle()
    there = tmp_path / "there"
    there.touch()
    assert await lifecycle.appears(there)
    waiting = asyncio.create_task(lifecycle.appears(tmp_path / "missing"))
    await asyncio.sleep(0)
    lifecycle.stopping.set()
    assert not await waiting
