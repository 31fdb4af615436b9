"""A generation whose records do not count: what tasks tell of it, and when the pipeline ends because of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from pyspark.sql import SparkSession

from penstock.contract import generations, records
from penstock.contract.generations import LivePoint, ShutOut
from penstock.dispatcher.matched_record import Matched
from penstock.dispatcher.service import DispatcherService
from penstock.engine.pipeline import why_undeliverable
from penstock.settings import Settings
from tests.unit.dispatcher.dispatcher_double import Node, Topic
from tests.unit.dispatcher.virtual_time import run


def record(offset: int, generation: int, *, fence: bool = False) -> Matched:
    raw = {records.GENERATION: str(generation).encode()} | ({records.FENCE: b"1"} if fence else {})
    return Matched(0, offset, 0, offset, routes=() if fence else ("r",), raw=raw, value=None)


def test_a_task_tells_which_generation_it_leaves_out_and_because_of_which_fence() -> None:
    async def story() -> None:
        node = Node({}, Topic(), Topic())
        await node.boot()
        node.dispatcher.take([record(0, 9, fence=True), record(1, 9), record(2, 5), record(3, 5)])
        assert node.reports.shut_outs == [(5, 9)]
        await node.halt()

    run(story())


class Service:
    """The service in the pipeline, before it is started, and what its tasks and routers write."""

    def __init__(self) -> None:
        self._service = DispatcherService(cast("SparkSession", SimpleNamespace(sparkContext=None)), Settings())
        self._service._fresh.set()

    def point(self, number: int) -> None:
        key, point = generations.key_of(number), LivePoint(number, (0,), (0,))
        self._service._note(key, generations.encode(point))

    def left_out(self, generation: int, fence: int) -> None:
        told = generations.encode(ShutOut(generation, fence))
        self._service._note(generations.shut_out_key(0), told)

    def ends(self, live: int) -> str | None:
        return why_undeliverable({"router_generation": live, "dispatcher_shut_out": self._service._shut_out})


def test_the_pipeline_ends_when_the_live_generation_is_left_out() -> None:
    service = Service()
    service.point(5)
    service.left_out(5, 9)
    assert "cannot deliver the output of router generation 5" in (service.ends(5) or "")


def test_it_goes_on_when_that_generation_was_replaced_or_the_next_is_about_to_be_live() -> None:
    service = Service()
    service.point(5)
    service.left_out(4, 5)
    assert service.ends(5) is None
    service.point(6)
    service.left_out(5, 6)
    assert service.ends(5) is None


def test_it_goes_on_after_the_start_that_the_mistake_led_to() -> None:
    service = Service()
    service.point(5)
    service.left_out(5, 9)
    assert service.ends(0) is None
    service.point(1_000_010)
    service.left_out(5, 9)
    assert service.ends(1_000_010) is None
