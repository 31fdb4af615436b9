"""Whatever ends a part of a component by an exception ends the component."""

from __future__ import annotations

import asyncio
import threading

import pytest

from penstock.runtime.tasks import OwnedThread, TaskScope


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
    scope, taken = TaskScope(), list[int]()

    def hand_over() -> None:
        scope.hand_over(taken.append, 1)
        scope.hand_over(broken)
        scope.hand_over(taken.append, 2)

    thread = threading.Thread(target=hand_over)
    thread.start()
    thread.join()
    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(scope.failed(), 60)
    assert taken == [1]


async def test_a_task_that_raises_has_ended_its_owner_before_anything_else_runs() -> None:
    scope = TaskScope()

    async def work() -> None:
        await asyncio.sleep(0)
        broken()

    task = asyncio.create_task(scope.watch(work()))
    await asyncio.sleep(0)
    assert scope.failure is None
    await asyncio.sleep(0)
    assert isinstance(scope.failure, ZeroDivisionError)
    with pytest.raises(ZeroDivisionError):
        scope.check()
    with pytest.raises(ZeroDivisionError):
        await task


async def test_the_first_failure_counts() -> None:
    scope = TaskScope()
    scope.check()
    scope.fail(KeyError("first"))
    scope.fail(ZeroDivisionError("second"))
    with pytest.raises(KeyError):
        await asyncio.wait_for(scope.failed(), 60)


async def test_the_first_task_that_fails_is_told_to_the_owner() -> None:
    scope, ended = TaskScope(), list[str]()
    scope.start(forever(ended), "lives on")
    scope.start(asyncio.sleep(0), "ends well")
    scope.start(fail(), "fails")
    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(scope.failed(), 60)
    assert ended == []
    await scope.close()
    assert ended == ["cancelled"]


async def test_tasks_that_are_cancelled_have_not_failed() -> None:
    scope = TaskScope()
    scope.start(forever(), "lives on")
    await asyncio.sleep(0)
    await scope.close()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(scope.failed(), 0.01)
