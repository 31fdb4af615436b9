"""Much of a kind: whatever is read, watched or removed of it, only a part is in memory at a time."""

from __future__ import annotations

import asyncio
import gc
import json
import tracemalloc
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from starlette.types import Message

from penstock.apiserver.access import identity
from penstock.apiserver.http.responses import PIECE_BYTES
from penstock.apiserver.http.watching import SEND_BYTES
from penstock.apiserver.store import expiry, storage
from penstock.apiserver.store.storage import PART_BYTES, Store, Transaction
from penstock.apiserver.verbs.deletion import Deletion
from penstock.runtime.tasks import TaskScope
from penstock.runtime.times import rfc3339
from tests.unit.apiserver.api_in_process import ApiInProcess

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
NAMES = [f"large-{number:02}" for number in range(24)]
OBJECT_BYTES = 500_000
WHOLE_BYTES = len(NAMES) * OBJECT_BYTES
LIMIT_SECONDS = 60
MIB = 1024 * 1024
NOW = datetime(2026, 11, 17, tzinfo=UTC)

pytestmark = pytest.mark.asyncio(loop_scope="module")

Take = Callable[[bytes], Awaitable[None]]


async def ask(
    api: ApiInProcess, path: str, take: Take, *, accept: str = "application/json", method: str = "GET"
) -> int:
    """Hands every piece of the answer to `take`; the status."""
    place, _, query = path.partition("?")
    token = api.tokens[identity.ADMIN]
    status = 0
    messages = [{"type": "http.request", "body": b""}]

    async def receive() -> Message:
        if not messages:
            await asyncio.Event().wait()  # the client stays
        return messages.pop()

    async def send(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        elif message.get("body"):
            await take(message["body"])

    headers = [(b"accept", accept.encode()), (b"authorization", f"Bearer {token}".encode())]
    scope = {
        "type": "http",
        "http_version": "1.1",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "method": method,
        "path": place,
        "raw_path": place.encode(),
        "query_string": query.encode(),
        "headers": headers,
        "server": ("127.0.0.1", 443),
        "client": ("127.0.0.1", 1),
        "scheme": "https",
    }
    await api.app(scope, receive, send)
    return status


async def answer(api: ApiInProcess, path: str, **how: str) -> tuple[int, list[bytes]]:
    """Status and pieces of an answer."""
    taken: list[bytes] = []

    async def take(piece: bytes) -> None:
        taken.append(piece)

    return await ask(api, path, take, **how), taken


async def make(api: ApiInProcess, path: str) -> None:
    """More than is held in memory."""
    for name in NAMES:
        await api.made(path, {"metadata": {"name": name}, "data": {"a": "x" * OBJECT_BYTES}})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def large(api: ApiInProcess) -> ApiInProcess:
    """An API with more than it holds in memory."""
    await make(api, CONFIGMAPS)
    return api


@contextmanager
def growing_less_than(mib: float) -> Iterator[None]:
    """What Python allocates and keeps in the block."""
    tracemalloc.start()
    try:
        yield
        gc.collect()
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert grown < mib * MIB, f"{grown / MIB:.0f} MiB more"


@pytest.mark.parametrize(
    ("accept", "entries"),
    [
        ("application/json", "items"),
        ("application/json;as=Table;v=v1;g=meta.k8s.io", "rows"),
        ("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", "items"),
    ],
    ids=["objects", "table", "metadata"],
)
async def test_a_long_list_is_complete_and_sent_in_small_pieces(large: ApiInProcess, accept: str, entries: str) -> None:
    status, taken = await answer(large, CONFIGMAPS, accept=accept)
    listed = json.loads(b"".join(taken))
    assert status == 200
    assert max(map(len, taken)) <= PIECE_BYTES
    named = [one.get("object", one)["metadata"]["name"] for one in listed[entries]]
    assert [name for name in named if name in NAMES] == NAMES
    assert len(named) == len(set(named))
    assert int(listed["metadata"]["resourceVersion"]) > 0
    assert "continue" not in listed["metadata"]


async def test_pages_are_shorter_where_objects_are_large_and_lead_to_all(large: ApiInProcess) -> None:
    named: list[str] = []
    token, asked = "", 0
    while asked == 0 or token:
        _, taken = await answer(large, f"{CONFIGMAPS}?limit=500&continue={token}")
        page = json.loads(b"".join(taken))
        named += [one["metadata"]["name"] for one in page["items"]]
        token, asked = page["metadata"].get("continue", ""), asked + 1
        assert sum(map(len, taken)) < PART_BYTES + 2 * OBJECT_BYTES
    assert [name for name in named if name in NAMES] == NAMES
    assert asked >= WHOLE_BYTES // (PART_BYTES + OBJECT_BYTES)


async def test_a_long_list_is_not_made_into_yaml(large: ApiInProcess) -> None:
    status, taken = await answer(large, CONFIGMAPS, accept="application/yaml")
    assert status == 400
    assert b"set a limit" in b"".join(taken)


async def test_clients_that_do_not_read_their_lists_hold_a_part_each(large: ApiInProcess) -> None:
    stopped = asyncio.Event()
    waiting = [asyncio.Event() for _ in range(6)]

    async def slow(begun: asyncio.Event) -> None:
        async def take(_: bytes) -> None:
            begun.set()
            await stopped.wait()

        await ask(large, CONFIGMAPS, take)

    with growing_less_than(6 * (PART_BYTES + 2 * OBJECT_BYTES) / MIB):
        tasks = [asyncio.create_task(slow(begun)) for begun in waiting]
        async with asyncio.timeout(LIMIT_SECONDS):
            await asyncio.gather(*(begun.wait() for begun in waiting))
    stopped.set()
    await asyncio.gather(*tasks)


async def test_watches_keep_nothing_of_what_they_have_sent(large: ApiInProcess) -> None:
    query = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"

    async def watch(told: asyncio.Event, names: list[str]) -> None:
        line = bytearray()

        async def take(piece: bytes) -> None:
            assert len(piece) <= SEND_BYTES
            line.extend(piece)
            if piece.endswith(b"\n"):
                for one in bytes(line).splitlines():
                    event = json.loads(one)
                    names.append(event["object"]["metadata"].get("name", event["type"]))
                line.clear()
            if names[-1:] == ["BOOKMARK"]:
                told.set()

        await ask(large, f"{CONFIGMAPS}?{query}", take)

    seen: list[tuple[asyncio.Event, list[str]]] = [(asyncio.Event(), []) for _ in range(4)]
    with growing_less_than(4):
        tasks = [asyncio.create_task(watch(told, names)) for told, names in seen]
        async with asyncio.timeout(LIMIT_SECONDS):
            await asyncio.gather(*(told.wait() for told, _ in seen))
    for _, names in seen:
        assert [name for name in names if name in NAMES] == NAMES
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_large_collection_is_deleted_in_parts(api: ApiInProcess) -> None:
    await api.made("/api/v1/namespaces", {"metadata": {"name": "doomed"}})
    path = "/api/v1/namespaces/doomed/configmaps"
    await make(api, path)
    status, taken = await answer(api, path, method="DELETE")
    assert (status, json.loads(b"".join(taken))["kind"]) == (200, "Status")
    await api.made(path, {"metadata": {"name": "small"}})
    status, taken = await answer(api, path, method="DELETE")
    listed = json.loads(b"".join(taken))
    assert [one["metadata"]["name"] for one in listed["items"] if one["metadata"]["name"] in (*NAMES, "small")] == [
        "small"
    ]


@pytest_asyncio.fixture(loop_scope="module")
async def commits(tmp_path: Path) -> AsyncIterator[tuple[Store, list[int]]]:
    """A store, and how large each commit was."""
    sizes: list[int] = []
    store = Store(tmp_path / "api.db", lambda changes: sizes.append(sum(one.size for one in changes)), TaskScope())
    yield store, sizes
    await store.close()


async def fill(store: Store, resource: str, **more: Any) -> None:
    for name in NAMES:
        metadata = {"name": name, "namespace": "ns", "uid": name, **more}
        obj = {"metadata": metadata, "message": "x" * OBJECT_BYTES}
        await store.write(partial(Transaction.put, resource=resource, obj=obj))


async def test_a_namespace_is_emptied_in_parts_that_fit_into_memory(commits: tuple[Store, list[int]]) -> None:
    store, sizes = commits
    going = {"metadata": {"name": "ns", "uid": "ns", "deletionTimestamp": rfc3339(NOW)}}
    await store.write(lambda tx: tx.put("namespaces", going))
    await fill(store, "events")
    sizes.clear()
    after: tuple[str, str] | None = ("", "")

    def empty(tx: Transaction) -> tuple[str, str] | None:
        assert after is not None
        return Deletion(tx, NOW, lambda *_: None).empty("ns", after, 500)

    while after is not None:
        after = await store.write(empty)
    assert (await store.page("events", "ns")).bodies == []
    assert store.get("namespaces", "", "ns") is None
    assert max(sizes) < PART_BYTES + 3 * OBJECT_BYTES
    assert sum(sizes) > 2 * WHOLE_BYTES


async def test_old_events_are_removed_in_parts_that_fit_into_memory(commits: tuple[Store, list[int]]) -> None:
    store, sizes = commits
    await fill(store, "events", creationTimestamp=rfc3339(NOW))
    sizes.clear()
    assert await expiry.expire(store, NOW + timedelta(hours=2)) == len(NAMES)
    assert max(sizes) < 2 * (PART_BYTES + 2 * OBJECT_BYTES)


async def test_nothing_of_a_write_stays_behind(commits: tuple[Store, list[int]]) -> None:
    class Result:
        """What a write gives back."""

    store, _ = commits
    result = await store.write(lambda tx: Result())
    gone = weakref.ref(result)
    del result
    for _ in range(100):  # the thread that wrote may still be on its way to the next
        gc.collect()
        if gone() is None:
            break
        await asyncio.sleep(0.01)
    assert gone() is None


async def test_all_parts_of_a_list_show_one_state(commits: tuple[Store, list[int]]) -> None:
    store, _ = commits
    await fill(store, "events")
    versions, bodies = [], []
    async for page in store.parts("events", "ns"):
        versions.append(page.version)
        bodies += page.bodies
        await fill(store, "events", labels={"changed": "meanwhile"})
    assert len(versions) > 2
    assert len(set(versions)) == 1
    assert not any(b"meanwhile" in body for body in bodies)
    assert [json.loads(body)["metadata"]["name"] for body in bodies] == NAMES


async def test_a_list_that_is_read_too_slowly_goes_on_with_what_is_there_then(
    commits: tuple[Store, list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "SNAPSHOT_SECONDS", -1.0)
    store, _ = commits
    await fill(store, "events")
    parts = store.parts("events", "ns")
    first = await anext(parts)
    await store.write(lambda tx: tx.put("events", {"metadata": {"name": "z", "namespace": "ns", "uid": "z"}}))
    rest = [page async for page in parts]
    assert all(page.version == first.version + 1 for page in rest)
    assert json.loads(rest[-1].bodies[-1])["metadata"]["name"] == "z"
