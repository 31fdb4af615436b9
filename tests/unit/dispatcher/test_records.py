"""Records of the topics: matched events, cursors, keys, what a flush writes; and the memory they may take."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.contract import topics
from penstock.contract.attempts import AttemptRecord
from penstock.contract.records import Unreadable
from penstock.dispatcher.cursors import cursor_store
from penstock.dispatcher.cursors.cursor import YOUNG_FLUSHES, Cursor, Outstanding, Stage, Taken, encode, restore
from penstock.dispatcher.cursors.cursor_store import decode_partition
from penstock.dispatcher.cursors.flusher import Unflushed
from penstock.dispatcher.cursors.partition import PartitionCursors
from penstock.dispatcher.cursors.stage_payload import reply_payload
from penstock.dispatcher.event_memory import Memory
from penstock.dispatcher.matched_record import Matched, read
from penstock.events.event import CloudEvent
from penstock.kafka.random_reader import NEAR, runs

offsets = st.integers(0, 2**53)


def matched(offset: int, origin: int, *routes: str, value: bytes = b"") -> Matched:
    return Matched(0, offset, 0, origin, routes=routes, raw=[], value=value)


@given(
    offsets,
    st.none() | offsets,
    st.lists(st.builds(Outstanding, offsets, offsets, offsets, offsets, st.sampled_from(Stage), st.integers(0, 99))),
)
def test_a_cursor_survives_the_topic(start: int, resume: int | None, deliveries: list[Outstanding]) -> None:
    cursor = Cursor("r", start, resume, set())
    cursor.restore([delivery for delivery in deliveries if delivery.origin >= start], ())
    again = restore("r", encode(cursor), (), set())
    assert (again.next, again.resume, again.outstanding) == (cursor.next, cursor.resume, cursor.outstanding)
    assert list(again.outstanding) == sorted(again.outstanding)


def test_a_cursor_takes_what_is_new_and_has_room() -> None:
    changed: set[Cursor] = set()
    cursor = Cursor("r", 5, None, changed)
    assert cursor.take(4, 0, 0, 0, free=True) is Taken.REPEATED
    assert cursor.take(5, 0, 0, 0, free=False) is Taken.FULL
    assert not changed
    assert cursor.take(7, 9, 1, 0, free=True) == Outstanding(7, 9, 1)
    assert (cursor.next, changed) == (8, {cursor})
    cursor.finish(7)
    assert cursor.outstanding == {}


def test_a_record_names_its_origin_and_routes() -> None:
    event = [("ce_specversion", b"1.0"), ("ce_id", b"1"), ("ce_source", b"/s"), ("ce_type", b"t")]
    raw = [("penstock_origin", b"12"), ("penstock_routes", b"a,b,a"), *event]
    record = read(3, 40, 99, raw, b"x")
    assert (record.partition, record.offset, record.at, record.origin, record.routes) == (3, 40, 99, 12, ("a", "b"))
    assert record.event.data == b"x"
    assert record.identity == ("1", "/s", "t")


def test_a_record_without_an_event_has_no_identity() -> None:
    assert matched(0, 0).identity == ("", "", "")


def test_a_marker_is_for_nobody() -> None:
    assert read(0, 0, 0, [("penstock_origin", b"1"), ("penstock_routes", b"")], None).routes == ()


headers_like = st.lists(
    st.tuples(
        st.sampled_from(["penstock_origin", "penstock_routes", "ce_id", "ce_partitionkey"]), st.none() | st.binary()
    )
)


@given(st.none() | headers_like)
def test_any_record_is_read_or_refused(raw: list[tuple[str, bytes | None]] | None) -> None:
    try:
        record = read(0, 0, 0, raw, None)
    except Unreadable:
        return
    assert record.origin >= 0


@pytest.mark.parametrize("key", ["", "a", "ä" * 1000])
def test_equal_keys_have_equal_fingerprints(key: str) -> None:
    raw = [("penstock_origin", b"1"), ("penstock_routes", b"a"), ("ce_partitionkey", key.encode())]
    first, second = read(0, 0, 0, raw, None).ordering_key(), read(0, 1, 0, raw, None).ordering_key()
    assert first == second
    assert (first == 0) is (key == "")
    assert first < 2**53


def test_keys_of_the_cursors_are_told_apart() -> None:
    assert cursor_store.parse_cursor_key(cursor_store.cursor_key("uid", 3)) == "uid"
    assert cursor_store.parse_cursor_key(cursor_store.tail_key(3)) is None
    assert cursor_store.parse_payload_key(cursor_store.payload_key("uid", 3, 44)) == ("uid", 44)
    assert cursor_store.parse_payload_key(cursor_store.cursor_key("uid", 3)) is None
    assert cursor_store.parse_payload_key(cursor_store.delivery_key("uid", 3, 44)) is None
    assert cursor_store.parse_delivery_key(cursor_store.delivery_key("uid", 3, 44)) == ("uid", 44)


@given(st.dictionaries(st.text() | st.sampled_from(["tail/0", "r/0", "payload/r/0/1", "delivery/r/0/1"]), st.binary()))
def test_whatever_is_among_the_cursors_is_understood_or_named(values: dict[str, bytes]) -> None:
    restored = decode_partition(values, 0, set())
    understood = len(restored.cursors) + len(restored.payloads) + (restored.tail is not None)
    assert set(restored.unreadable) <= set(values)
    assert understood + len(restored.orphans) + len(restored.unreadable) >= len(values) - (restored.cursors != {})


def attempt(origin: int) -> AttemptRecord:
    return AttemptRecord(0.0, "r", 0, origin, "1", "/s", "t", "subscriber", 1, "http://s/", "delivered", 0.1, 202)


def test_a_flush_writes_attempts_cursors_and_tail_once() -> None:
    partition = PartitionCursors(0, 0)
    changes = Unflushed(partition)
    partition.tail = 6
    partition.cursor("r").take(5, 5, 0, 0, free=True)
    changes.attempts.append(attempt(5))
    written = {(entry.topic, entry.key): entry.value for entry in changes.entries(0.0)}
    assert set(written) == {(topics.ATTEMPTS, "r"), (topics.CURSORS, "r/0"), (topics.CURSORS, "tail/0")}
    assert written[(topics.CURSORS, "tail/0")] == b'{"next":6,"origin":-1,"at":0}'
    assert msgspec.json.decode(written[(topics.ATTEMPTS, "r")] or b"")["origin"] == 5
    assert changes.entries(0.0) == []


def test_a_removed_route_is_deleted_with_its_payloads_and_may_come_back() -> None:
    partition = PartitionCursors(0, 0)
    changes = Unflushed(partition)
    cursor = partition.cursor("r")
    taken = cursor.take(5, 5, 0, 0, free=True)
    assert isinstance(taken, Outstanding)
    taken.stage = Stage.REPLY
    changes.keep_payload("r", 5, b"reply")
    partition.forget("r")
    changes.removed(cursor)
    assert {(entry.key, entry.value) for entry in changes.entries(0.0, final=True)} == {
        ("r/0", None),
        ("payload/r/0/5", None),
        ("tail/0", b'{"next":0,"origin":-1,"at":0}'),
    }
    changes.removed(cursor)
    partition.cursor("r").take(6, 6, 0, 0, free=True)
    assert [entry.value is None for entry in changes.entries(0.0) if entry.key == "r/0"] == [False]


def test_memory_counts_a_record_once_and_refuses_what_does_not_fit() -> None:
    memory = Memory(10_000)
    small, large = matched(0, 0), matched(1, 1, value=b"x" * 9_400)
    assert memory.hold(small) is small
    held = memory.held
    assert memory.hold(small) is small
    assert memory.held == held
    assert memory.hold(large) is None
    memory.release(small)
    memory.release(small)
    memory.release(small)
    assert memory.held == 0
    assert memory.hold(large) is large
    assert memory.tight


def test_attributes_count_as_memory_as_they_are_stored_and_sent() -> None:
    def with_headers(*raw: tuple[str, bytes | None]) -> Matched:
        return Matched(0, 0, 0, 0, routes=("r",), raw=raw, value=b"x" * 10)

    bare = with_headers().size
    assert with_headers(("ce_long", b"x" * 60_000)).size >= bare + 120_000
    assert with_headers(*((f"ce_a{number}", b"") for number in range(1000))).size >= bare + 100_000
    assert with_headers(("key", None)).size > bare


def test_the_attributes_of_a_reply_count_as_memory() -> None:
    event = CloudEvent({"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "long": "x" * 60_000}, b"x" * 10)
    assert reply_payload(event, []).size > 60_000


@given(st.sets(st.tuples(st.integers(0, 3), st.integers(0, 1000))))
def test_runs_cover_what_is_wanted_without_long_gaps(wanted: set[tuple[int, int]]) -> None:
    stretches = runs(list(wanted))
    covered = [(partition, offset) for partition, begin, end in stretches for offset in range(begin, end)]
    assert wanted <= set(covered)
    assert len(covered) == len(set(covered))
    assert len(covered) <= len(wanted) * (NEAR + 1)


def flushed(changes: Unflushed) -> dict[str, bytes | None]:
    return {entry.key: entry.value for entry in changes.entries(0.0) if entry.topic == topics.CURSORS}


def test_a_delivery_that_stays_gets_a_record_of_its_own_and_the_cursor_stays_small() -> None:
    partition = PartitionCursors(0)
    changes, cursor = Unflushed(partition), partition.cursor("r")
    old = cursor.take(1, 1, 0, 0, free=True)
    assert isinstance(old, Outstanding)
    for origin in range(2, 2 + YOUNG_FLUSHES):
        cursor.take(origin, origin, 0, 0, free=True)
        assert set(flushed(changes)) == {"r/0"}, "most are over before it is worth it"
        changes.finished(cursor, origin)
    cursor.touch()
    written = flushed(changes)
    assert list(written) == ["delivery/r/0/1", "r/0"], "what the cursor counts as taken is written before it"
    assert b"outstanding" not in (written["r/0"] or b"")
    old.attempt = 7
    changes.changed(cursor, old)
    assert list(flushed(changes)) == ["delivery/r/0/1"], "the cursor has not changed"
    changes.finished(cursor, 1)
    assert flushed(changes) == {"delivery/r/0/1": None}


def test_a_delivery_that_failed_gets_its_record_with_the_next_flush() -> None:
    partition = PartitionCursors(0)
    changes, cursor = Unflushed(partition), partition.cursor("r")
    failed = cursor.take(1, 1, 0, 0, free=True)
    assert isinstance(failed, Outstanding)
    failed.attempt = 1
    changes.changed(cursor, failed)
    values = {key: value for key, value in flushed(changes).items() if value is not None}
    again = decode_partition(values, 0, set())
    assert again.cursors["r"].outstanding == {1: failed}


def test_a_delivery_whose_cursor_was_lost_with_the_end_of_the_log_is_taken_again() -> None:
    values = {
        "r/0": b'{"next":5}',
        "delivery/r/0/4": b"[4,4,0]",
        "delivery/r/0/5": b"[5,5,0]",
        "delivery/x/0/1": b"[1,1,0]",
    }
    restored = decode_partition(values, 0, set())
    assert list(restored.cursors["r"].outstanding) == [4]
    assert restored.orphans == [("r", 5), ("x", 1)]


def test_records_that_cannot_be_read_cost_repeats_and_no_event() -> None:
    restored = decode_partition({"r/0": b'{"next":5}', "delivery/r/0/4": b"?", "s/0": b"?"}, 0, set())
    assert restored.unreadable == ["delivery/r/0/4", "s/0"]
    assert list(restored.cursors["r"].outstanding) == [4]
    assert (restored.cursors["s"].next, restored.cursors["s"].resume) == (0, 0)
