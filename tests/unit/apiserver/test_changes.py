"""The ring of recent changes: complete while it reaches back far enough, and bounded."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.apiserver.errors import ApiError
from penstock.apiserver.http import watching
from penstock.apiserver.http.responses import pieces
from penstock.apiserver.http.watching import WatchScope
from penstock.apiserver.store.expiry import is_expired
from penstock.apiserver.store.storage import Change
from penstock.apiserver.verbs.history import Ring, WatchHistory


def change(version: int, name: str = "n", *, size: int = 1, before: bytes | None = None, kind: str = "ADDED") -> Change:
    return Change(version, kind, "things", "ns", name, b"x" * size, before)


@given(st.integers(1, 10), st.integers(0, 30), st.integers(0, 40))
def test_who_starts_at_a_version_sees_all_later_changes_or_is_told(limit: int, count: int, start: int) -> None:
    ring = Ring(10, max_changes=limit)
    versions = [10 + 2 * number for number in range(1, count + 1)]
    for version in versions:
        ring.append(change(version))
    place = ring.position(start)
    if place is None:
        assert start < ring.start
    else:
        seen = ring.since(place, 1000)
        assert seen is not None
        assert [one.version for one in seen] == [version for version in versions if version > start]


@given(st.lists(st.integers(1, 400), max_size=40))
def test_memory_is_bounded_by_bytes_as_well(sizes: list[int]) -> None:
    ring = Ring(0, max_bytes=2000)
    for version, size in enumerate(sizes, 1):
        ring.append(change(version, size=size))
    kept = ring.since(ring.position(ring.start) or 0, 1000) or []
    assert sum(len(one.body) + 200 for one in kept) <= 2000 or len(kept) == 1
    assert not sizes or kept[-1].version == len(sizes)


def test_a_place_that_was_given_up_is_noticed() -> None:
    ring = Ring(0, max_changes=2)
    place = ring.position(0)
    assert place == 0
    for version in (1, 2, 3):
        ring.append(change(version))
    assert ring.since(place, 10) is None
    assert ring.position(0) is None
    assert ring.position(1) == 1


def test_kinds_do_not_push_each_other_out() -> None:
    history = WatchHistory(5)
    history.publish([Change(6, "ADDED", "quiet", "", "a", b"", None)])
    history.publish([Change(7 + n, "ADDED", "busy", "", "a", b"", None) for n in range(10_000)])
    quiet = history.ring("quiet")
    assert quiet.position(5) is not None
    assert history.ring("busy").position(5) is None
    assert history.version == 10_006


@given(st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(0, 3000)), max_size=60))
def test_all_kinds_together_are_bounded(changes: list[tuple[str, int]]) -> None:
    history = WatchHistory(0, max_bytes=8000)
    for version, (resource, size) in enumerate(changes, 1):
        history.publish([Change(version, "ADDED", resource, "", str(version), b"x" * size, None)])
        assert history.bytes <= 8000
    for resource in ("a", "b", "c"):
        ring = history.ring(resource)
        place = ring.position(ring.start)
        assert place is not None
        kept = [change.version for change in ring.since(place, 100) or []]
        expected = [
            version for version, (kind, _) in enumerate(changes, 1) if kind == resource and version > ring.start
        ]
        assert kept == expected, "what is kept is the newest, and a watch from its beginning misses nothing"


@given(st.lists(st.binary(max_size=40), max_size=20), st.integers(1, 16))
def test_pieces_are_the_whole_and_never_too_long(parts: list[bytes], size: int) -> None:
    made = list(pieces(parts, size))
    assert b"".join(made) == b"".join(parts)
    assert all(len(piece) <= size for piece in made)


def test_what_a_watcher_sees_of_a_change() -> None:
    everything = WatchScope(None, None, None)
    assert everything.sees(change(1)) == "ADDED"
    assert WatchScope("other", None, None).sees(change(1)) is None
    assert WatchScope("ns", "m", None).sees(change(1)) is None
    selected = WatchScope(None, None, lambda body: body == b"yes")
    for before, after, expected in (
        (None, b"yes", "ADDED"),
        (None, b"no", None),
        (b"no", b"yes", "ADDED"),
        (b"yes", b"yes", "MODIFIED"),
        (b"yes", b"no", "DELETED"),
        (b"no", b"no", None),
    ):
        assert selected.sees(Change(1, "MODIFIED", "t", "ns", "n", after, before)) == expected
    assert selected.sees(Change(1, "DELETED", "t", "ns", "n", b"yes", b"yes")) == "DELETED"


def test_events_live_an_hour_after_they_were_last_seen() -> None:
    now = datetime(2026, 1, 1, 12, tzinfo=UTC)
    made = {"metadata": {"creationTimestamp": "2026-01-01T10:00:00Z"}}
    assert is_expired(made, now)
    assert not is_expired({**made, "lastTimestamp": "2026-01-01T11:30:00Z"}, now)
    assert not is_expired({"metadata": {}}, now)


async def test_too_many_watches_are_refused_and_all_end_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "MAX_WATCHES", 2)
    watches = watching.Watches()
    tasks: list[asyncio.Task[object]] = [asyncio.create_task(_never()) for _ in range(3)]
    watches.enter(tasks[0])
    watches.enter(tasks[1])
    with pytest.raises(ApiError) as refused:
        watches.enter(tasks[2])
    assert refused.value.code == 429
    watches.leave(tasks[0])
    watches.enter(tasks[2])
    watches.end_all()
    done = await asyncio.gather(tasks[1], tasks[2], return_exceptions=True)
    assert all(isinstance(one, asyncio.CancelledError) for one in done)
    tasks[0].cancel()


async def test_waiting_watches_all_learn_of_news() -> None:
    ring = Ring(0)
    waiting = [asyncio.create_task(ring.news()) for _ in range(100)]
    await asyncio.sleep(0)
    ring.append(change(1))
    ring.wake()
    await asyncio.wait_for(asyncio.gather(*waiting), 60)


async def _never() -> object:
    return await asyncio.get_running_loop().create_future()
