"""The snapshot of routes: complete versions only, unknown and broken things passed over."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.contract.records import Unreadable
from penstock.contract.routes import (
    Delivery,
    Endpoint,
    Route,
    ServiceName,
    Target,
    TrustBundle,
    Version,
    decode,
    encode,
    key_of,
)
from penstock.contract.snapshot import Snapshot, SnapshotBuilder

BROKER = Target("b1", "Broker", "default", "orders", paths=("/default/orders",))
TRIGGER = Route(
    "t1",
    "Trigger",
    "default",
    "audit",
    target="b1",
    attributes={"type": "order.placed"},
    subscriber=Endpoint("http://sink.default.svc.cluster.local"),
    delivery=Delivery(retry=3, backoff_policy="linear", backoff_delay=2.0, dead_letter=Endpoint("http://dls")),
    start=(5, 0, 7, 1),
)


def put(builder: SnapshotBuilder, *records: Target | Route | ServiceName | Version) -> object:
    return [builder.apply(key_of(record), encode(record)) for record in records][-1]


def test_nothing_counts_before_its_version() -> None:
    builder = SnapshotBuilder()
    assert put(builder, BROKER, TRIGGER) is None
    snapshot = builder.apply("version", encode(Version(1)))
    assert snapshot is not None
    assert snapshot.targets == {"b1": BROKER}
    assert snapshot.routes == {"t1": TRIGGER}


def test_a_snapshot_does_not_change_after_it_was_given() -> None:
    builder = SnapshotBuilder()
    put(builder, BROKER)
    first = builder.apply("version", encode(Version(1)))
    builder.apply("target/b1", None)
    second = builder.apply("version", encode(Version(2)))
    assert first is not None
    assert second is not None
    assert (len(first.targets), len(second.targets)) == (1, 0)


def test_a_broken_record_is_left_out() -> None:
    builder = SnapshotBuilder()
    for value in (b'{"uid": 3}', b"\xff"):
        with pytest.raises(Unreadable, match=r"^(Decode|Validation)Error: "):
            builder.apply("route/bad", value)
    put(builder, BROKER)
    snapshot = builder.apply("version", encode(Version(1)))
    assert snapshot is not None
    assert (len(snapshot.targets), len(snapshot.routes)) == (1, 0)


def test_records_of_a_newer_writer_are_read() -> None:
    newer = {**json.loads(encode(TRIGGER)), "colour": "blue"}
    assert decode("route/t1", json.dumps(newer).encode()) == TRIGGER
    assert decode("quota/x", b"{}") is None
    assert SnapshotBuilder().apply("quota/x", b"{}") is None


@given(st.lists(st.sampled_from(["put", "drop"]), max_size=20))
def test_the_last_word_on_a_key_counts(words: list[str]) -> None:
    builder = SnapshotBuilder()
    for word in words:
        builder.apply("target/b1", encode(BROKER) if word == "put" else None)
    snapshot = builder.apply("version", encode(Version(1)))
    assert snapshot is not None
    assert ("b1" in snapshot.targets) == (bool(words) and words[-1] == "put")


def built(*records: tuple[str, bytes | None]) -> Snapshot:
    builder, newest = SnapshotBuilder(), Snapshot()
    for key, value in records:
        with contextlib.suppress(Unreadable):
            newest = builder.apply(key, value) or newest
    return newest


TRIGGER_RECORD = (key_of(TRIGGER), encode(TRIGGER))
GARBAGE = (key_of(TRIGGER), b"\xff{")


@pytest.mark.parametrize(
    ("records", "ended"),
    [
        pytest.param([("version", encode(Version(1)))], True, id="there is none"),
        pytest.param([], False, id="nothing was published"),
        pytest.param([TRIGGER_RECORD, ("version", encode(Version(1, routes=1)))], False, id="it is there"),
        pytest.param([GARBAGE, ("version", encode(Version(1)))], False, id="its record cannot be read"),
        pytest.param([("version", encode(Version(1, routes=1)))], False, id="a route is missing"),
        pytest.param([("version", b"{")], False, id="the version cannot be read"),
        pytest.param([GARBAGE, ("route/t1", None), ("version", encode(Version(1)))], True, id="it was deleted"),
    ],
)
def test_a_route_has_ended_only_if_no_record_that_cannot_be_read_may_be_its(
    records: list[tuple[str, bytes | None]], ended: bool
) -> None:
    assert built(*records).has_ended("t1") == ended


def test_garbage_leaves_in_force_what_was_before_it() -> None:
    found = built(TRIGGER_RECORD, GARBAGE, ("version", encode(Version(1, routes=1))))
    assert (found.routes, set(found.unreadable), found.missing) == ({"t1": TRIGGER}, {"t1"}, 0)


def test_a_record_of_another_key_is_garbage() -> None:
    """Else it would stand for one route and hide another."""
    found = built(("route/t2", encode(TRIGGER)), ("version", encode(Version(1, routes=1))))
    assert (found.routes, set(found.unreadable)) == ({}, {"t2"})


def test_trust_bundles_are_joined_in_the_order_of_their_names_and_go_with_their_keys() -> None:
    builder = SnapshotBuilder()
    for bundle in (TrustBundle("b", "B\n"), TrustBundle("a", "A\n")):
        builder.apply(key_of(bundle), encode(bundle))
    first = builder.apply("version", encode(Version(1)))
    assert first is not None
    assert (first.trusted, set(builder.records())) == ("A\nB\n", {"trust/a", "trust/b"})
    builder.apply("trust/a", None)
    second = builder.apply("version", encode(Version(2)))
    assert second is not None
    assert second.trusted == "B\n"
