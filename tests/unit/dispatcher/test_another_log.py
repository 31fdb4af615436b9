"""Cursors and the topics that their offsets are of: other events are refused, other matched events read again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest
from pyspark.sql import SparkSession

from penstock.contract.event_log import AnotherLog
from penstock.contract.routes import Delivery, Endpoint, Route
from penstock.dispatcher.cursors.cursor import Counts
from penstock.dispatcher.cursors.partition import Logs
from penstock.dispatcher.service import DispatcherService
from penstock.settings import Settings
from tests.unit.dispatcher.dispatcher_double import Node, Topic, Written
from tests.unit.dispatcher.virtual_time import run

ROUTE = Route("r", "Trigger", "ns", "r", "broker", subscriber=Endpoint("http://s/"), delivery=Delivery(retry=3))
HERE = Logs("events-1", "matched-1")


async def delivered(logs: Logs | None, count: int = 5, *, named: bool = False) -> Node:
    """A task that has delivered so many events and was stopped. They have an id where they are `named`."""
    events = [Written(origin, ("r",), origin) for origin in range(count)]
    names = {origin: f"e{origin}" for origin in range(count)} if named else {}
    node = Node({"r": ROUTE}, Topic(dict(names), list(events)), Topic(dict(names), list(events)))
    await node.boot()
    if logs is not None:
        node.dispatcher.check_logs(0, logs, count)
    await node.settle()
    node.flush()
    await node.crash()
    return node


def test_other_events_are_refused() -> None:
    async def story() -> None:
        node = await delivered(HERE)
        with pytest.raises(AnotherLog, match="its topic id is events-2, and it was events-1"):
            node.dispatcher.check_logs(0, Logs("events-2", "matched-1"), 5)
        await node.halt()

    run(story())


def test_cursors_of_a_former_version_are_refused_where_they_are_beyond_the_end() -> None:
    async def story() -> None:
        node = await delivered(None)
        with pytest.raises(AnotherLog, match="partition 0 ends at 4, and the cursor of the route r resumes from 5"):
            node.dispatcher.check_logs(0, HERE, 4)
        node.dispatcher.check_logs(0, HERE, 5)
        await node.halt()

    run(story())


def test_they_are_refused_as_well_where_the_same_topic_has_lost_its_end() -> None:
    async def story() -> None:
        node = await delivered(HERE)
        with pytest.raises(AnotherLog, match="partition 0 ends at 4, and the cursor of the route r resumes from 5"):
            node.dispatcher.check_logs(0, HERE, 4)
        await node.halt()

    run(story())


def test_a_replay_may_go_beyond_the_end_of_a_log_that_was_adopted() -> None:
    async def story() -> None:
        node = await delivered(HERE)
        node.cursors.cursor("replay").counts = Counts()
        node.cursors.cursor("replay").pass_over(90)
        node.dispatcher.check_logs(0, HERE, 5)
        await node.halt()

    run(story())


def test_another_event_at_the_place_of_the_last_one_delivered_is_refused() -> None:
    """The topic has lost its end, the matched events more of theirs, and events have come since."""

    async def story() -> None:
        node = await delivered(HERE, named=True)
        await node.dispatcher.check_event(0, node.events)
        node.events.keys = dict.fromkeys(range(9), "other")
        with pytest.raises(AnotherLog, match="at offset 4 of partition 0 is another event than the one delivered from"):
            await node.dispatcher.check_event(0, node.events)
        node.events.first = 5
        await node.dispatcher.check_event(0, node.events)  # retention has removed it: nothing tells
        await node.halt()

    run(story())


def test_the_newest_event_is_known_over_restarts_whatever_is_read_again() -> None:
    async def story() -> None:
        node = await delivered(HERE, named=True)
        known = node.cursors.known
        assert known is not None
        assert known.offset == 4
        node.cursors.start_over()
        node.position = 0
        await node.read_tail()
        assert node.cursors.known == known
        await node.halt()

    run(story())


class SparkContext:
    """Jobs end at once, because a task has refused the log."""

    jobs = 0

    def setJobGroup(self, *_: object, **__: object) -> None:
        """Nothing is cancelled."""

    def parallelize(self, *_: object) -> SparkContext:
        return self

    def foreachPartition(self, _: object) -> None:
        self.jobs += 1
        raise RuntimeError(
            "Job aborted due to stage failure: PythonException: Traceback (most recent call last):\n"
            '  File "task.py", line 1, in run_task\n'
            f"penstock.contract.event_log.AnotherLog: {AnotherLog('partition 0 ends at 4')}\n\n"
            "\tat org.apache.spark.api.python.BasePythonRunner"
        )


def test_the_service_ends_with_what_a_task_says_and_does_not_try_again() -> None:
    context = SparkContext()
    spark = cast("SparkSession", SimpleNamespace(sparkContext=context))
    service = DispatcherService(spark, Settings(kafka="k:9092"))
    service._run()
    assert str(service.failure()) == str(AnotherLog("partition 0 ends at 4"))
    assert context.jobs == 1


def test_matched_events_in_another_topic_are_read_from_its_beginning() -> None:
    async def story() -> None:
        node = await delivered(HERE)
        node.matched.records = [Written(origin, ("r",), 100 + origin) for origin in range(3, 8)]
        node.dispatcher.check_logs(0, Logs("events-1", "matched-2"), 8)
        assert node.cursors.tail is None
        node.position = 0
        await node.settle()
        assert [event for _, event in node.seen] == [0, 1, 2, 3, 4, 5, 6, 7]
        await node.halt()

    run(story())
