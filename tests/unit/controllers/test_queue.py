"""The work queue."""

import asyncio

import pytest

from penstock.controllers.queue import WorkQueue


async def test_a_key_added_often_is_taken_once() -> None:
    queue: WorkQueue[str] = WorkQueue()
    for _ in range(3):
        queue.add("a")
    assert await queue.take() == "a"
    queue.done("a", failed=False)
    assert len(queue) == 0


async def test_a_key_added_while_it_is_worked_on_comes_back_afterwards_and_not_before() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    await queue.take()
    queue.add("a")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(queue.take(), 0.01)
    queue.done("a", failed=False)
    assert await queue.take() == "a"


async def test_keys_come_in_the_order_they_were_added() -> None:
    queue: WorkQueue[str] = WorkQueue()
    for key in "abc":
        queue.add(key)
    assert [await queue.take() for _ in range(3)] == ["a", "b", "c"]


async def test_a_failed_key_comes_back_after_a_pause() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    queue.done(await queue.take(), failed=True)
    assert len(queue) == 0
    assert await asyncio.wait_for(queue.take(), 60) == "a"
    queue.close()


async def test_a_pass_waits_for_what_runs_and_for_what_waits() -> None:
    queue: WorkQueue[str] = WorkQueue()
    await queue.passed()
    queue.add("a")
    queue.add("b")
    await queue.take()
    passing = asyncio.create_task(queue.passed())
    await asyncio.sleep(0)
    queue.add("later")
    for key in ("a", "b"):
        await asyncio.sleep(0)
        assert not passing.done()
        queue.done(key if key == "a" else await queue.take(), failed=key == "b")
    await asyncio.wait_for(passing, 60)
    queue.close()


async def test_a_pass_waits_for_a_key_that_is_to_be_looked_at_again() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    await queue.take()
    queue.add("a")
    passing = asyncio.create_task(queue.passed())
    await asyncio.sleep(0)
    queue.done("a", failed=False)
    await asyncio.sleep(0)
    assert not passing.done()
    queue.done(await queue.take(), failed=False)
    await asyncio.wait_for(passing, 60)


async def test_a_pass_does_not_wait_for_a_key_that_comes_again_and_again() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    passing = asyncio.create_task(queue.passed())
    await asyncio.sleep(0)
    for _ in range(3):
        await queue.take()
        queue.add("a")
        queue.done("a", failed=False)
    await asyncio.wait_for(passing, 60)
    assert len(queue) == 1


async def test_only_the_last_alarm_of_a_key_counts() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_at("a", 3600)
    queue.add_at("a", 0)
    queue.add_at("b", 0)
    queue.add_at("b", None)
    assert await queue.take() == "a"
    queue.done("a", failed=False)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(queue.take(), 0.01)
    queue.close()
