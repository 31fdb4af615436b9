"""The store's edges: nobody waits for a writer that has ended, and no failure of it stays unseen."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from penstock.apiserver.errors import ApiError
from penstock.apiserver.store import expiry
from penstock.apiserver.store.storage import Change, Store, Transaction
from penstock.runtime.tasks import TaskScope

LIMIT_SECONDS = 20
"""For what takes milliseconds on a machine that has nothing else to do."""


class Commits:
    """What the store told of, and whether taking it in fails."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.fails = False

    def __call__(self, changes: list[Change]) -> None:
        if self.fails:
            raise ZeroDivisionError("on purpose")
        self.seen += [change.name for change in changes]


@pytest.fixture
def commits() -> Commits:
    return Commits()


@pytest.fixture
async def owner() -> TaskScope:
    return TaskScope()


@pytest.fixture
async def store(tmp_path: Path, commits: Commits, owner: TaskScope) -> AsyncIterator[Store]:
    store = Store(tmp_path / "api.db", commits, owner)
    yield store
    await store.close()


def put(name: str, resource: str = "things", **more: object) -> Callable[[Transaction], str]:
    def work(tx: Transaction) -> str:
        tx.put(resource, {"metadata": {"name": name, "namespace": "ns", "uid": name, **more}})
        return name

    return work


async def failure_of(owner: TaskScope) -> BaseException:
    with pytest.raises(Exception) as caught:  # noqa: PT011  # which one is what the tests compare
        await asyncio.wait_for(owner.failed(), LIMIT_SECONDS)
    return caught.value


async def test_a_writer_that_ends_leaves_nobody_waiting_and_takes_the_component_along(
    store: Store, owner: TaskScope, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(batch: object) -> list[Change]:
        raise MemoryError("on purpose")

    monkeypatch.setattr(store, "_write", fail)
    waiting = [asyncio.create_task(store.write(put(name))) for name in "abc"]
    answers = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), LIMIT_SECONDS)
    assert [type(answer) for answer in answers] == [ApiError] * 3
    with pytest.raises(ApiError, match="started again"):
        await asyncio.wait_for(store.write(put("later")), LIMIT_SECONDS)
    assert isinstance(await failure_of(owner), MemoryError)


async def test_a_disk_that_fails_is_answered_and_the_writer_goes_on(store: Store, commits: Commits) -> None:
    def fail(tx: Transaction) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    with pytest.raises(ApiError, match="disk I/O error"):
        await store.write(fail)
    assert await store.write(put("a")) == "a"
    assert commits.seen == ["a"]


async def test_a_defect_behind_a_commit_answers_what_is_stored_and_ends_the_component(
    store: Store, owner: TaskScope, commits: Commits
) -> None:
    commits.fails = True
    assert await asyncio.wait_for(store.write(put("a")), LIMIT_SECONDS) == "a"
    assert store.get("things", "ns", "a") is not None
    assert isinstance(await failure_of(owner), ZeroDivisionError)


async def test_expiry_outlives_an_error_of_the_database(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "ROUND_SECONDS", 0)
    old = (datetime.now(UTC) - timedelta(hours=2)).isoformat()
    await store.write(put("old", "events", creationTimestamp=old))
    parts, failures = store.parts, [sqlite3.OperationalError("database is locked")]

    def flaky(*arguments: object, **options: object) -> object:
        if failures:
            raise failures.pop()
        return parts(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "parts", flaky)
    task = asyncio.create_task(expiry.expire_forever(store))
    try:
        async with asyncio.timeout(LIMIT_SECONDS):
            while store.get("events", "ns", "old") is not None:
                assert not task.done(), task.exception()
                await asyncio.sleep(0.001)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert failures == []
