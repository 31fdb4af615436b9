"""Where the events are not those that were routed before: the router refuses to go on, in one sentence."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.contract import records
from penstock.contract.event_log import AnotherLog, identity
from penstock.contract.routes import Route
from penstock.kafka.topic_ends import Retained
from tests.unit.router.generations_double import Scene

ROUTE = Route(uid="r", kind="Trigger", namespace="n", name="r", target="t", attributes={"type": "x"}, start=(1,))
ADOPT = "penstock topics --adopt-events"


def marker(text: str) -> list[tuple[str, bytes | None]]:
    return [(records.MARKER, text.encode())]


def routed_up_to(origin: int) -> Scene:
    """A router has written the event at this offset last, and everything is started again."""
    scene = Scene([Retained(0, 50)])
    scene.advance(1, ROUTE)
    scene.events = [Retained(0, origin + 1)]
    scene.wrote(scene.serving.number, 0, origin)
    scene.restart()
    return scene


def test_the_same_log_is_gone_on_from() -> None:
    scene = routed_up_to(80)
    scene.stored[0, 80] = marker("80")
    scene.advance(1, ROUTE)
    assert scene.starts[-1].offsets == (81,)


def test_events_that_end_before_what_was_routed_are_refused() -> None:
    scene = routed_up_to(5_000)
    scene.events = [Retained(0, 100)]
    with pytest.raises(AnotherLog, match=rf"partition 0 ends at 100, and routing resumes from 5001\. .*{ADOPT}"):
        scene.advance(1, ROUTE)
    assert len(scene.queries) == 1


def test_another_event_at_the_place_of_the_last_one_routed_is_refused() -> None:
    """The log was cut off, by an unclean election, and has grown again since."""
    scene = routed_up_to(80)
    scene.events = [Retained(0, 200)]
    scene.stored[0, 80] = marker("another")
    with pytest.raises(AnotherLog, match="at offset 80 of partition 0 is another event than the one routed from there"):
        scene.advance(1, ROUTE)


def test_it_is_also_seen_when_the_query_ends_meanwhile() -> None:
    scene = Scene([Retained(0, 50)])
    scene.advance(1, ROUTE)
    scene.wrote(scene.serving.number, 0, 50)
    scene.events = [Retained(0, 20)]
    scene.generations.replace()
    with pytest.raises(AnotherLog, match="partition 0 ends at 20"):
        scene.advance(1, ROUTE)


def test_an_event_that_is_routed_while_the_router_looks_is_no_sign_of_another_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A task of the query before may still write, of events that are accepted meanwhile."""
    scene = routed_up_to(80)
    look = scene.newest

    def newest(*asked: Any) -> Any:
        if scene.events == [Retained(0, 81)]:
            scene.events = [Retained(0, 82)]
            scene.wrote(1, 0, 81)
        return look(*asked)

    monkeypatch.setattr(scene, "newest", newest)
    scene.advance(1, ROUTE)
    assert scene.starts[-1].offsets == (82,)


def test_an_event_that_retention_has_removed_is_not_compared() -> None:
    scene = routed_up_to(80)
    scene.events = [Retained(81, 200)]
    scene.advance(1, ROUTE)
    assert scene.starts[-1].offsets == (81,)


def test_a_topic_that_was_made_again_is_refused_although_nothing_is_known_to_have_been_routed() -> None:
    scene = Scene([Retained(0, 50)])
    scene.advance(1, ROUTE)
    scene.restart()
    scene.topic_id = "the second"
    scene.points.clear()
    with pytest.raises(AnotherLog, match="its topic id is the second, and it was the first"):
        scene.advance(1, ROUTE)


def test_a_route_that_begins_beyond_the_end_is_refused() -> None:
    scene = Scene([Retained(0, 50)])
    with pytest.raises(AnotherLog, match="partition 0 ends at 50, and the route late resumes from 51"):
        scene.advance(1, Route("late", "Trigger", "n", "late", "t", start=(51,)))


def test_another_error_is_not_taken_for_this_one() -> None:
    assert AnotherLog.found_in("Job aborted: OutOfMemoryError") is None


def test_events_and_markers_are_known_by_their_headers() -> None:
    event = [("ce_id", b"1"), ("ce_source", b"/s"), ("ce_type", b"t")]
    assert identity(event) == identity([*event, (records.ORIGIN, b"7")]) == (b"1", b"/s")
    assert identity(marker("1:2:3")) == (b"1:2:3",)
    assert identity([("foreign", b"x")]) == ()
