"""The publisher: differences, versions, starts, restarts."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest

from penstock.contract.records import Unreadable
from penstock.contract.routes import FormerMatch, Replay, Route, ServiceName, Target, Version, decode, encode
from penstock.controllers.routes import publisher as module
from penstock.controllers.routes.publisher import FORMER_BYTES, FORMER_KEPT, Publisher
from penstock.controllers.routes.route_records import past_route
from penstock.controllers.tracker import Observer
from penstock.history.reader.table_events import FirstKept
from penstock.kafka.routes import PublisherSuperseded, StoredReader
from penstock.kafka.topic_ends import Retained
from penstock.kube.kinds import Key
from tests.unit.controllers.api_double import TopicDouble

ME, OTHER = ("Trigger", Key("ns", "a")), ("Trigger", Key("ns", "b"))
THIRD = ("Trigger", Key("ns", "c"))


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GATHER_SECONDS", 0.0)
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.0)


@pytest.fixture
def topic() -> TopicDouble:
    return TopicDouble()


def ignore(_: Observer) -> None:
    """Enqueues nothing."""


@contextlib.asynccontextmanager
async def publishing(topic: TopicDouble, enqueue: Callable[[Observer], None] = ignore) -> AsyncIterator[Publisher]:
    publisher = Publisher(topic, enqueue)  # type: ignore[arg-type]
    await publisher.restore()
    yield publisher


async def publish(publisher: Publisher, version: int) -> None:
    """Runs the publisher until it has published the version."""
    done = asyncio.Event()
    publisher.listen(lambda published: done.set() if published >= version else None)
    publisher.drop_unclaimed()
    task = asyncio.create_task(publisher.run())
    if publisher.version < version:
        await asyncio.wait_for(done.wait(), 60)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def route(uid: str, **changes: Any) -> Route:
    return msgspec.structs.replace(Route(uid, "Trigger", "ns", uid, "t"), **changes)


def published(topic: TopicDouble, uid: str) -> Route:
    found = decode(f"route/{uid}", topic.records[f"route/{uid}"])
    assert isinstance(found, Route)
    return found


def version_in(topic: TopicDouble) -> Version:
    found = decode("version", topic.records["version"])
    assert isinstance(found, Version)
    return found


async def test_an_empty_control_plane_publishes_an_empty_version(topic: TopicDouble) -> None:
    async with publishing(topic) as publisher:
        await publish(publisher, 1)
    assert version_in(topic) == Version(1)


async def test_changes_that_come_together_share_one_version(topic: TopicDouble) -> None:
    async with publishing(topic) as publisher:
        publisher.claim(ME, [route("a"), Target("t", "Broker", "ns", "b")])
        publisher.claim(OTHER, [route("b"), ServiceName("h")])
        await publish(publisher, 1)
    assert version_in(topic) == Version(1, targets=1, routes=2, names=1)


async def test_a_change_costs_one_record(topic: TopicDouble) -> None:
    async with publishing(topic) as publisher:
        publisher.claim(ME, [route("a"), route("b")])
        await publish(publisher, 1)
        publisher.claim(ME, [route("a"), route("b", paused=True)])
        await publish(publisher, 2)
    assert topic.writes == [["route/a", "route/b"], ["route/b"]]


async def test_claiming_the_same_again_publishes_nothing(topic: TopicDouble) -> None:
    async with publishing(topic) as publisher:
        publisher.claim(ME, [route("a")])
        await publish(publisher, 1)
        publisher.claim(ME, [route("a")])
        assert publisher.version_of("route/a") == 1


async def test_a_route_starts_at_the_end_of_the_events_and_keeps_its_start(topic: TopicDouble) -> None:
    topic.ends = (7, 9)
    async with publishing(topic) as publisher:
        publisher.claim(ME, [route("a")])
        await publish(publisher, 1)
        topic.ends = (70, 90)
        publisher.claim(ME, [route("a", paused=True)])
        await publish(publisher, 2)
    found = decode("route/a", topic.records["route/a"])
    assert isinstance(found, Route)
    assert (found.start, found.paused) == ((7, 9), True)


async def test_a_route_that_changes_what_it_matches_keeps_what_it_was_until_then(topic: TopicDouble) -> None:
    topic.ends = (7, 9)
    first = FormerMatch("t", {"type": "a"}, until=(70, 90))
    second = FormerMatch("t", {}, [{"exact": {"type": "b"}}], until=(700, 900))
    async with publishing(topic) as publisher:
        publisher.claim(ME, [route("a", attributes={"type": "a"})])
        await publish(publisher, 1)
        topic.ends = (70, 90)
        publisher.claim(ME, [route("a", filters=[{"exact": {"type": "b"}}])])
        await publish(publisher, 2)
        assert published(topic, "a").former == (first,)
        topic.ends = (500, 600)
        publisher.claim(ME, [route("a", filters=[{"exact": {"type": "b"}}], paused=True)])
        await publish(publisher, 3)
        assert published(topic, "a").former == (first,)
    async with publishing(topic) as publisher:
        topic.ends = (700, 900)
        publisher.claim(ME, [route("a", target="u")])
        await publish(publisher, 4)
        assert published(topic, "a") == route("a", target="u", start=(7, 9), former=(first, second))
        publisher.claim(ME, [route("a", target="u")])
        assert publisher.version_of("route/a") == 4


async def test_a_write_that_failed_is_not_kept_as_a_change(topic: TopicDouble) -> None:
    async with publishing(topic) as publisher:
        publisher.claim(ME, [route("a", attributes={"type": "a"})])
        await publish(publisher, 1)
        topic.fail = 1
        topic.ends = (70, 90)
        publisher.claim(ME, [route("a")])
        await publish(publisher, 3)
        assert published(topic, "a").former == (FormerMatch("t", {"type": "a"}, until=(70, 90)),)


async def test_what_routes_were_is_bounded(topic: TopicDouble) -> None:
    async with publishing(topic) as publisher:
        for version in range(1, FORMER_KEPT + 4):
            publisher.claim(ME, [route("a", attributes={"type": str(version)})])
            await publish(publisher, version)
        found = published(topic, "a").former
        assert [one.attributes["type"] for one in found] == [str(n) for n in range(3, FORMER_KEPT + 3)]
        publisher.claim(ME, [route("a", attributes={"type": "x" * FORMER_BYTES})])
        await publish(publisher, FORMER_KEPT + 4)
        publisher.claim(ME, [route("a")])
        await publish(publisher, FORMER_KEPT + 5)
        assert published(topic, "a").former == ()


async def test_a_route_that_asks_for_the_past_starts_there_and_stays_there(topic: TopicDouble) -> None:
    topic.firsts, topic.ends = (0, 5), (7, 9)
    async with publishing(topic) as publisher:
        publisher.claim(ME, [route("a", asked_from=997.0)])
        await publish(publisher, 1)
        assert published(topic, "a") == route("a", asked_from=997.0, start=(4, 6))
        publisher.claim(ME, [route("a", asked_from=1.0)])
        assert publisher.version_of("route/a") == 1
    assert len(topic.writes) == 1


@pytest.mark.parametrize(
    ("found", "start", "told"),
    [((), (3, 0), ""), ((3, 0), (3, 0), "partitions 0 "), ((1, 4), (3, 4), "partitions 0 "), ((5, 4), (5, 4), "")],
)
def test_a_past_that_is_no_longer_kept_is_told(found: tuple[int, ...], start: tuple[int, ...], told: str) -> None:
    where, shortfall = module.start_in_the_past(found, [Retained(3, 9), Retained(0, 9)])
    assert where == start
    assert told in shortfall
    assert bool(told) == bool(shortfall)


@pytest.mark.parametrize(
    ("kept", "since", "start", "told"),
    [
        ({}, 5.0, (7, 0), "partitions 0 "),
        ({0: FirstKept(3, 1)}, 5.0, (3, 0), ""),
        ({0: FirstKept(3, 3)}, 5.0, (3, 0), "partitions 0 "),
        ({0: FirstKept(3, 3)}, 0.0, (3, 0), ""),
        ({0: FirstKept(9, 3)}, 5.0, (7, 0), ""),
    ],
)
def test_the_history_reaches_further_back(
    kept: dict[int, FirstKept], since: float, start: tuple[int, ...], told: str
) -> None:
    where, shortfall = module.further_back((7, 0), kept, since)
    assert where == start
    assert told in shortfall
    assert bool(told) == bool(shortfall)


async def test_a_replay_begins_in_the_history_where_kafka_has_forgotten(topic: TopicDouble) -> None:
    topic.firsts, topic.ends = (500, 0), (1000, 9)
    publisher = Publisher(topic, ignore, lambda since: {0: FirstKept(int(since), 1)})  # type: ignore[arg-type]
    await publisher.restore()
    publisher.claim(ME, [route("a", kind="Replay", replay=Replay("Trigger", since=20.0))])
    await publish(publisher, 1)
    found = published(topic, "a")
    assert found.start == (20, 0)
    assert found.replay is not None
    assert found.replay.end == (1000, 9)
    assert publisher.take_shortfall("route/a") is None


async def test_the_past_that_only_the_table_has_ends_where_its_route_begins(topic: TopicDouble) -> None:
    topic.firsts, topic.ends, topic.table = (500, 0), (1000, 9), {0: FirstKept(20, 20)}
    publisher = Publisher(topic, ignore, topic.kept)  # type: ignore[arg-type]
    await publisher.restore()
    own = route("a", asked_from=5.0)
    publisher.claim(ME, [own, past_route(own, 5.0)])
    await publish(publisher, 1)
    assert published(topic, "a").start == (1000, 9)
    past = published(topic, "a-past")
    assert past.start == (20, 0)
    assert past.replay == Replay("Trigger", since=5.0, end=(1000, 9), past_of="a")
    assert "partitions 0 " in (publisher.take_shortfall("route/a") or "")


async def test_a_past_that_kafka_has_is_left_to_the_router(topic: TopicDouble) -> None:
    topic.firsts, topic.ends, topic.table = (500, 0), (1000, 9), {0: FirstKept(20, 20)}
    publisher = Publisher(topic, ignore, topic.kept)  # type: ignore[arg-type]
    await publisher.restore()
    own = route("a", asked_from=900.0)
    publisher.claim(ME, [own, past_route(own, 900.0)])
    await publish(publisher, 1)
    past = published(topic, "a-past")
    assert past.replay is not None
    assert published(topic, "a").start == past.start == past.replay.end == (900, 0)


async def test_a_past_whose_record_is_lost_ends_where_it_did(topic: TopicDouble) -> None:
    topic.firsts, topic.ends, topic.table = (500, 0), (1000, 9), {0: FirstKept(20, 20)}
    own = route("a", asked_from=0.0)
    for _ in range(2):
        publisher = Publisher(topic, ignore, topic.kept)  # type: ignore[arg-type]
        await publisher.restore()
        publisher.claim(ME, [own, past_route(own, 0.0)])
        await publish(publisher, publisher.version + 1)
        past = published(topic, "a-past")
        assert (past.start, past.replay and past.replay.end) == ((20, 0), (1000, 9))
        del topic.records["route/a-past"]
        topic.ends = (2000, 90)


async def test_a_record_nobody_claims_any_more_is_deleted(topic: TopicDouble) -> None:
    async with publishing(topic) as publisher:
        publisher.claim(ME, [route("a")])
        await publish(publisher, 1)
        publisher.claim(ME, [])
        await publish(publisher, 2)
    assert set(topic.records) == {"version"}


async def test_a_restart_changes_nothing_in_the_topic(topic: TopicDouble) -> None:
    topic.ends = (3, 4)
    async with publishing(topic) as publisher:
        publisher.claim(ME, [route("a")])
        await publish(publisher, 1)
    before = dict(topic.records)
    async with publishing(topic) as publisher:
        publisher.claim(ME, [route("a")])
        assert publisher.is_as_restored("route/a")
        assert publisher.version_of("route/a") == 1
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(publisher.run(), 0.05)
    assert topic.records == before


async def test_after_a_restart_what_nobody_claims_is_deleted(topic: TopicDouble) -> None:
    async with publishing(topic) as publisher:
        publisher.claim(ME, [route("a")])
        publisher.claim(OTHER, [route("b")])
        await publish(publisher, 1)
    async with publishing(topic) as publisher:
        publisher.claim(ME, [route("a")])
        await publish(publisher, 2)
    assert set(topic.records) == {"route/a", "version"}


async def test_a_change_that_was_cut_off_before_its_version_is_completed(topic: TopicDouble) -> None:
    topic.records["route/a"] = encode(route("a", start=(1,)))
    topic.complete = False
    async with publishing(topic) as publisher:
        publisher.claim(ME, [route("a")])
        await publish(publisher, 1)
    assert version_in(topic) == Version(1, routes=1)


async def test_a_kafka_that_is_away_is_tried_again(topic: TopicDouble) -> None:
    topic.fail = 2
    async with publishing(topic) as publisher:
        publisher.claim(ME, [route("a")])
        assert publisher.version_of("route/a") is None
        await publish(publisher, 3)
        assert publisher.version_of("route/a") == 3
    assert topic.writes == [["route/a"]]


async def test_a_lost_acknowledgement_never_gives_one_number_to_two_contents(topic: TopicDouble) -> None:
    topic.unacknowledged = [None]
    async with publishing(topic) as publisher:
        publisher.claim(ME, [route("a")])

        with pytest.raises(OSError, match="lost"):
            await publisher._publish()
        publisher.claim(ME, [route("a"), route("b")])
        await publish(publisher, 2)
        assert publisher.version_of("route/b") == 2
    assert [(number, set(records)) for number, records in topic.snapshots] == [
        (1, {"route/a"}),
        (2, {"route/a", "route/b"}),
    ]


@pytest.mark.parametrize("stored", [0, 1, 2, None], ids=["nothing", "one record", "all but the version", "all"])
async def test_what_a_failed_write_left_behind_is_put_right(topic: TopicDouble, stored: int | None) -> None:
    """The claims go back to what was published before: the topic may hold something else all the same."""
    async with publishing(topic) as publisher:
        publisher.claim(ME, [route("old")])
        await publish(publisher, 1)
        before = topic.records["route/old"]
        topic.unacknowledged = [stored]
        publisher.claim(ME, [route("new"), route("old", paused=True)])
        with pytest.raises(OSError, match="lost"):
            await publisher._publish()
        publisher.claim(ME, [route("old")])
        assert publisher.version_of("route/old") is None
        await publish(publisher, 3)
    assert topic.records.keys() == {"route/old", "version"}
    assert topic.records["route/old"] == before
    assert version_in(topic) == Version(3, routes=1)


async def test_a_record_that_changes_hands_stays(topic: TopicDouble) -> None:
    async with publishing(topic) as publisher:
        publisher.claim(ME, [ServiceName("h")])
        publisher.claim(OTHER, [ServiceName("h")])
        publisher.claim(ME, [])
        await publish(publisher, 1)
    assert "name/h" in topic.records


async def test_a_record_stays_its_first_owners_until_that_gives_it_up(topic: TopicDouble) -> None:
    enqueued: list[Observer] = []
    async with publishing(topic, enqueued.append) as publisher:
        assert publisher.claim(ME, [route("a", name="mine")]) == {}
        assert publisher.claim(OTHER, [route("a", name="theirs"), route("b")]) == {"route/a": ME}
        assert publisher.claim(THIRD, [route("a", name="third")]) == {"route/a": ME}
        await publish(publisher, 1)
        assert [publisher.owner_of(f"route/{uid}") for uid in "ab"] == [ME, OTHER]
        assert published(topic, "a").name == "mine"
        publisher.claim(ME, [])
        assert (publisher.owner_of("route/a"), enqueued) == (OTHER, [OTHER])
        await publish(publisher, 2)
        assert published(topic, "a").name == "theirs"
        assert publisher.claim(OTHER, [route("a", name="theirs"), route("b")]) == {}
        publisher.claim(THIRD, [])
        publisher.claim(OTHER, [])
        await publish(publisher, 3)
    assert (set(topic.records), enqueued) == ({"version"}, [OTHER])


async def test_a_record_that_is_too_large_keeps_no_other_from_being_published(topic: TopicDouble) -> None:
    enqueued: list[Observer] = []
    async with publishing(topic, enqueued.append) as publisher:
        publisher.claim(ME, [route("a")])
        await publish(publisher, 1)
        large = {"filters": [{"exact": {"type": "x" * topic.largest}}]}
        publisher.claim(ME, [route("a", **large)])
        publisher.claim(THIRD, [route("c", **large)])
        publisher.claim(OTHER, [route("b")])
        await publish(publisher, 2)
        assert (set(topic.records), enqueued) == ({"version", "route/a", "route/b"}, [ME, THIRD])
        assert published(topic, "a") == route("a", start=(0, 0)), "the version before stays"
        assert "bytes, which is more than Kafka takes" in (publisher.left_out("route/a") or "")
        assert publisher.left_out("route/b") is None
        assert [publisher.version_of(f"route/{uid}") is None for uid in "abc"] == [True, False, True]
        publisher.claim(ME, [route("a", paused=True)])
        publisher.claim(THIRD, [])
        assert publisher.left_out("route/a") is None
        await publish(publisher, version_in(topic).version + 1)
        assert published(topic, "a").paused
        assert publisher.version_of("route/a") == version_in(topic).version
    assert set(topic.records) == {"version", "route/a", "route/b"}
    assert version_in(topic).routes == 2


async def test_owners_are_found_by_the_version_their_records_changed_in(topic: TopicDouble) -> None:
    async with publishing(topic) as publisher:
        publisher.claim(ME, [route("a")])
        await publish(publisher, 1)
        publisher.claim(OTHER, [route("b")])
        await publish(publisher, 2)
        assert list(publisher.owners_between(0, 1)) == [ME]
        assert list(publisher.owners_between(1, 2)) == [OTHER]


def test_records_survive_a_field_that_a_newer_writer_adds() -> None:
    value = msgspec.json.encode({"uid": "a", "kind": "Trigger", "namespace": "n", "name": "x", "target": "t", "new": 1})
    assert decode("route/a", value) == Route("a", "Trigger", "n", "x", "t")


async def test_a_control_plane_that_another_took_over_from_ends(
    topic: TopicDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    def superseded(*_: object) -> None:
        raise PublisherSuperseded("another control plane publishes")

    monkeypatch.setattr(topic, "write", superseded)
    async with publishing(topic) as publisher:
        publisher.claim(ME, [route("a")])
        with pytest.raises(PublisherSuperseded, match="another control plane"):
            await asyncio.wait_for(publisher.run(), 60)


GARBAGE = b"\xff{"


def starts_in(topic: TopicDouble) -> dict[str, tuple[int, ...]]:
    found = [decode(key, value) for key, value in topic.records.items()]
    return {record.uid: record.start for record in found if isinstance(record, Route)}


async def published_before(topic: TopicDouble, *uids: str) -> None:
    """A control plane has published these routes, and events have come since."""
    topic.firsts, topic.ends = (2, 3), (7, 9)
    async with publishing(topic) as publisher:
        publisher.claim(ME, [route(uid) for uid in uids])
        await publish(publisher, 1)
    topic.ends = (70, 90)


async def test_a_route_whose_record_cannot_be_read_begins_with_the_oldest_event(topic: TopicDouble) -> None:
    await published_before(topic, "a", "b")
    topic.records["route/a"] = GARBAGE
    async with publishing(topic) as publisher:
        publisher.claim(ME, [route("a"), route("b"), route("new")])
        await publish(publisher, 2)
    assert starts_in(topic) == {"a": (2, 3), "b": (7, 9), "new": (70, 90)}


async def test_garbage_behind_the_version_explains_the_route_that_is_missing(topic: TopicDouble) -> None:
    await published_before(topic, "a", "b")
    del topic.records["route/a"]
    topic.records["route/a"] = GARBAGE
    async with publishing(topic) as publisher:
        publisher.claim(ME, [route("a"), route("b"), route("new")])
        await publish(publisher, 2)
    assert starts_in(topic) == {"a": (2, 3), "b": (7, 9), "new": (70, 90)}


async def test_a_record_that_cannot_be_read_and_that_nobody_claims_is_deleted(topic: TopicDouble) -> None:
    await published_before(topic, "a", "b")
    topic.records["route/a"] = topic.records["target/x"] = GARBAGE
    async with publishing(topic) as publisher:
        publisher.claim(ME, [route("b")])
        await publish(publisher, 2)
    assert set(topic.records) == {"route/b", "version"}


async def test_a_route_that_is_still_expected_keeps_its_record_that_cannot_be_read(topic: TopicDouble) -> None:
    """Its Trigger is there, but nobody can tell yet where it leads to. Deleted, it would count as gone."""
    await published_before(topic, "a", "b")
    topic.records["route/a"] = GARBAGE
    async with publishing(topic) as publisher:
        publisher.claim(ME, [], expected=["route/a"])
        publisher.claim(OTHER, [route("b", paused=True)])
        await publish(publisher, 2)
        assert topic.records["route/a"] == GARBAGE
        publisher.claim(ME, [route("a")], expected=["route/a"])
        await publish(publisher, 3)
    assert starts_in(topic) == {"a": (2, 3), "b": (7, 9)}


async def test_a_record_that_cannot_be_read_goes_with_the_object_it_was_expected_for(topic: TopicDouble) -> None:
    await published_before(topic, "a", "b")
    topic.records["route/a"] = GARBAGE
    async with publishing(topic) as publisher:
        publisher.claim(ME, [], expected=["route/a"])
        publisher.claim(OTHER, [route("b", paused=True)])
        await publish(publisher, 2)
        publisher.claim(ME, [])
        await publish(publisher, 3)
    assert set(topic.records) == {"route/b", "version"}


async def test_where_a_route_is_missing_without_a_trace_every_unknown_one_may_be_it(topic: TopicDouble) -> None:
    await published_before(topic, "a", "b")
    del topic.records["route/a"]
    async with publishing(topic) as publisher:
        publisher.claim(ME, [route("a"), route("b")])
        await publish(publisher, 2)
        publisher.claim(OTHER, [route("later")])
        await publish(publisher, 3)
    assert starts_in(topic) == {"a": (2, 3), "b": (7, 9), "later": (70, 90)}


async def test_a_route_that_is_missing_and_expected_begins_with_the_oldest_event(topic: TopicDouble) -> None:
    await published_before(topic, "a", "b")
    del topic.records["route/a"]
    async with publishing(topic) as publisher:
        publisher.claim(ME, [], expected=["route/a"])
        publisher.claim(OTHER, [route("b", paused=True)])
        await publish(publisher, 2)
        publisher.claim(ME, [route("a")], expected=["route/a"])
        await publish(publisher, 3)
    assert starts_in(topic)["a"] == (2, 3)


async def test_a_version_that_cannot_be_read_is_followed_by_a_higher_one(topic: TopicDouble) -> None:
    """Acknowledgements of the versions before may still be there: none of them must count for what comes now."""
    await published_before(topic, "a")
    topic.records["version"] = GARBAGE
    topic.complete = False
    async with publishing(topic) as publisher:
        publisher.claim(ME, [route("a")])
        await publish(publisher, 2)
    assert version_in(topic).version > 10**12
    assert starts_in(topic) == {"a": (7, 9)}


async def test_garbage_is_replaced_as_soon_as_it_is_there(topic: TopicDouble) -> None:
    await published_before(topic, "a", "b")
    before = {key: value for key, value in topic.records.items() if key != "version"}
    async with publishing(topic) as publisher:
        publisher.claim(ME, [route("a"), route("b")])
        publisher.drop_unclaimed()
        publishes = asyncio.create_task(publisher.run())
        await asyncio.wait_for(topic.watched.wait(), 60)
        out = asyncio.Event()
        publisher.listen(lambda _: out.set())
        for number, key in enumerate(("route/a", "route/stranger", "version")):
            out.clear()
            topic.spoil(key)
            await asyncio.wait_for(out.wait(), 60)
            assert publisher.version == number + 2
        publishes.cancel()
        await asyncio.gather(publishes, return_exceptions=True)
    assert {key: value for key, value in topic.records.items() if key != "version"} == before
    assert version_in(topic) == Version(4, routes=2)


@pytest.mark.parametrize("key", ["route/a", "route/stranger", "version"])
async def test_garbage_that_is_noticed_during_a_write_is_replaced_by_the_next(
    topic: TopicDouble, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    """It may have come before that write, or after it."""
    async with publishing(topic) as publisher:
        publisher.claim(ME, [route("a")])
        write = topic.write

        def interrupted(changes: list[tuple[str, bytes | None]], version: bytes) -> None:
            write(changes, version)
            monkeypatch.setattr(topic, "write", write)
            topic.spoil(key)

        monkeypatch.setattr(topic, "write", interrupted)
        await publish(publisher, 2)
    assert topic.records.keys() == {"route/a", "version"}
    assert (version_in(topic), starts_in(topic)) == (Version(2, routes=1), {"a": (0, 0)})


async def test_an_older_record_that_can_still_be_read_tells_the_start(topic: TopicDouble) -> None:
    reader = StoredReader()
    for key, value in (("route/a", encode(route("a", start=(7, 9)))), ("route/a", GARBAGE), ("version", GARBAGE)):
        with contextlib.suppress(Unreadable):
            reader.apply(key, value)
    topic.read = reader.stored  # type: ignore[method-assign]
    async with publishing(topic) as publisher:
        publisher.claim(ME, [route("a")])
        await publish(publisher, 1)
    assert starts_in(topic) == {"a": (7, 9)}  # written again, or the next reader would find garbage


async def test_a_route_that_was_published_without_a_start_keeps_it_so(topic: TopicDouble) -> None:
    topic.ends = (70, 90)
    topic.records["route/a"] = encode(route("a"))
    async with publishing(topic) as publisher:
        publisher.claim(ME, [route("a", paused=True)])
        await publish(publisher, 1)
    assert starts_in(topic) == {"a": ()}
