"""Whatever ends a part of a component by an exception ends the component."""

from __future__ import annotations

import asyncio
import threading

import pytest

from penstock.runtime.tasks import OwnedThread, Owner


def broken(*_: object) -> None:
    raise ZeroDivisionError("on purpose")


async def fail() -> None:
    broken()


async def forever(ended: list[str] | None = None) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        if ended is not None:
            ended.append("cancelled")


def test_a_thread_that_ends_by_an_exception_tells_its_owner() -> None:
    told: list[BaseException] = []
    thread = OwnedThread("broken", broken, told.append)
    thread.start()
    thread.join(5)
    assert [type(error) for error in told] == [ZeroDivisionError]


def test_a_thread_that_ends_in_order_tells_nothing() -> None:
    told: list[BaseException] = []
    thread = OwnedThread("fine", lambda: None, told.append)
    thread.start()
    thread.join(5)
    assert told == []


def test_a_thread_that_was_never_started_is_not_waited_for() -> None:
    told: list[BaseException] = []
    OwnedThread("idle", broken, told.append).join(5)
    assert told == []


async def test_a_callback_that_raises_ends_its_owner_and_nothing_is_handed_over_afterwards() -> None:
    owner, taken = Owner(), list[int]()

    def hand_over() -> None:
        owner.hand_over(taken.append, 1)
        owner.hand_over(broken)
        owner.hand_over(taken.append, 2)

    thread = threading.Thread(target=hand_over)
    thread.start()
    thread.join()
    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(owner.failed(), 60)
    assert taken == [1]


async def test_a_task_that_raises_has_ended_its_owner_before_anything_else_runs() -> None:
    owner = Owner()

    async def work() -> None:
        await asyncio.sleep(0)
        broken()

    task = asyncio.create_task(owner.watch(work()))
    await asyncio.sleep(0)
    assert owner.failure is None
    await asyncio.sleep(0)
    assert isinstance(owner.failure, ZeroDivisionError)
    with pytest.raises(ZeroDivisionError):
        owner.check()
    with pytest.raises(ZeroDivisionError):
        await task


async def test_the_first_failure_counts() -> None:
    owner = Owner()
    owner.check()
    owner.fail(KeyError("first"))
    owner.fail(ZeroDivisionError("second"))
    with pytest.raises(KeyError):
        await asyncio.wait_for(owner.failed(), 60)


async def test_the_first_task_that_fails_is_told_to_the_owner() -> None:
    owner, ended = Owner(), list[str]()
    owner.start(forever(ended), "lives on")
    owner.start(asyncio.sleep(0), "ends well")
    owner.start(fail(), "fails")
    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(owner.failed(), 60)
    assert ended == []
    await owner.close()
    assert ended == ["cancelled"]


async def test_tasks_that_are_cancelled_have_not_failed() -> None:
    owner = Owner()
    owner.start(forever(), "lives on")
    await asyncio.sleep(0)
    await owner.close()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(owner.failed(), 0.01)
