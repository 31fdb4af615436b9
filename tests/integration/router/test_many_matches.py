"""Events that match more routes than one record can name."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.contract import records, topics
from penstock.router.plan import routing
from penstock.router.service import RouterService
from penstock.settings import Settings
from tests.integration.router.router_stage import Stage, trigger
from tests.waiting import eventually

StartRouter = Callable[[Settings], RouterService]

MANY = 40_000
"""Routes whose uids, as long as real ones, take more than the largest record."""


def test_an_event_for_very_many_routes_reaches_all_of_them(stage: Stage, start_router: StartRouter) -> None:
    start = stage.ends()
    uids = {f"{number:036}" for number in range(MANY)}
    stage.publish(*(trigger(uid, start, type="popular") for uid in sorted(uids)))
    router = start_router(stage.settings)
    for partition in range(stage.settings.partitions):
        stage.send(f"news-{partition}", "popular", partition=partition)
    sent = {f"news-{partition}" for partition in range(stage.settings.partitions)}

    def all_named() -> bool:
        named: dict[str, set[str]] = {ident: set() for ident in sent}
        for record in stage.look():
            if record.id in sent:
                named[record.id].update(record.routes)
        return all(len(found) == MANY for found in named.values())

    eventually(all_named, 180)
    for ident in sent:
        found = [record for record in stage.look() if record.id == ident]
        assert len(found) > 1
        assert {uid for record in found for uid in record.routes} == uids
    assert router.failure() is None
    assert router.status()["refused"] == 0
    router.stop()
    stage.publish()


def test_a_query_that_ended_between_the_records_of_an_event_writes_them_again(
    stage: Stage, start_router: StartRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routing, "ROUTES_BYTES", 2 * len("part-0,"))
    routes = [trigger(f"part-{number}", stage.ends(), type="cut") for number in range(5)]
    stage.publish(*routes)
    start_router(stage.settings).stop()
    origin = stage.ends()[1]
    stage.send("half-written", "cut", partition=1)
    stage.producer.flush(60)
    # What is left of a query that was killed after the first of three records.
    written: list[tuple[str, str | bytes | None]] = [
        ("ce_id", b"half-written"),
        ("ce_source", b"/test"),
        (records.ORIGIN, str(origin).encode()),
        (records.ROUTES, b"part-0,part-1"),
        (records.GENERATION, b"1"),
        (records.PARTS_LEFT, b"2"),
    ]
    stage.producer.produce(stage.topic(topics.MATCHED), partition=1, headers=written)
    stage.producer.flush(60)
    start_router(stage.settings)
    eventually(lambda: stage.ids("part-4") == ["half-written"])
    assert [stage.ids(f"part-{number}").count("half-written") for number in range(5)] == [2, 2, 1, 1, 1]
