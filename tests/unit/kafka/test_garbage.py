"""Garbage in front of every decoder: a value, None, or Unreadable; never anything else."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.contract import records as headers
from penstock.contract import reports, routes
from penstock.contract.records import Unreadable
from penstock.contract.snapshot import SnapshotBuilder
from penstock.dispatcher import matched_record as matched
from penstock.dispatcher.cursors import cursor_store
from penstock.router import matched_record

DEEP = b'{"colour":' + b"[" * 100_000
HUGE = b"9" * 5000
LARGEST = 2**63 - 1

FIELDS = [
    *("uid", "kind", "namespace", "name", "target", "generation", "attributes", "filters", "subscriber", "reply"),
    *("delivery", "start", "max_in_flight", "ordering", "paused", "host", "hosts", "paths", "ports", "version"),
    *("routes", "targets", "names", "component", "instance", "at", "refused", "route", "partition", "first", "last"),
    *("next", "resume", "outstanding", "data", "passed", "failure", "colour"),
]
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just(10**400)
TREES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3))
OBJECTS = st.dictionaries(st.sampled_from(FIELDS), TREES, max_size=8).map(lambda tree: json.dumps(tree).encode())
VALUES = st.binary(max_size=40) | OBJECTS | st.sampled_from([DEEP, HUGE, b"", b"null", b'{"version":' + HUGE + b"}"])
KEYS = st.text(max_size=20) | st.builds(
    "/".join,
    st.lists(
        st.sampled_from(["route", "target", "name", "version", "ack", "loss", "tail", "payload", "0", "7", "x", ""])
    ),
)
NAMES = st.sampled_from([headers.ORIGIN, headers.ROUTES, headers.GENERATION, headers.MARKER, "ce_id"]) | st.text()
TEXTS = st.none() | st.binary(max_size=30) | st.sampled_from([b"7", b"1:2:3", HUGE, b"\xc2\xb2", b"a,b"])
HEADERS = st.none() | st.lists(st.tuples(NAMES, TEXTS), max_size=6)


@given(KEYS, VALUES)
def test_routes_and_reports(key: str, value: bytes) -> None:
    for decode in (routes.decode, reports.decode):
        with contextlib.suppress(Unreadable):
            decode(key, value)


@given(st.lists(st.tuples(KEYS, st.none() | VALUES), max_size=10))
def test_a_snapshot_of_garbage(records: list[tuple[str, bytes | None]]) -> None:
    builder = SnapshotBuilder()
    for key, value in records:
        try:
            snapshot = builder.apply(key, value)
        except Unreadable:
            continue
        assert snapshot is None or 0 <= snapshot.version <= LARGEST


@given(HEADERS, st.none() | st.binary(max_size=10))
def test_matched_records(pairs: Any, value: bytes | None) -> None:
    with contextlib.suppress(Unreadable):
        assert 0 <= matched.read(0, 5, 1000, pairs, value).origin <= LARGEST
    seen = matched_record.decode(0, 5, 1000, pairs)
    assert seen is None or 0 <= seen.origin <= LARGEST


@given(st.dictionaries(KEYS, VALUES, max_size=6))
def test_cursors(values: dict[str, bytes]) -> None:
    restored = cursor_store.decode_partition(values, 0, set())
    assert set(restored.unreadable) <= values.keys()


@pytest.mark.parametrize("value", [DEEP, HUGE, b"\xff", b"", b"{", b"3", b'{"next": -1}'])
@pytest.mark.parametrize("key", ["tail/0", "route/0", "payload/route/0/1", "carried/route/0/" + "9" * 5000, "else"])
def test_cursors_that_once_were(key: str, value: bytes) -> None:
    restored = cursor_store.decode_partition({key: value}, 0, set())
    assert set(restored.unreadable) <= {key}
