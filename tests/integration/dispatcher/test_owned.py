"""A dispatcher task that breaks ends, writes nothing more, and its successor delivers what was left."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.contract import topics
from penstock.dispatcher.cursors.partition import PartitionCursors
from penstock.dispatcher.dispatcher import Dispatcher
from tests.integration.dispatcher.dispatcher_stage import Stage, Subscribe
from tests.waiting import until

BAD = b'"bad"'


@pytest.mark.timeout(300)
async def test_a_batch_that_breaks_the_task_is_delivered_by_the_next_one(
    stage: Stage, subscribe: Subscribe, monkeypatch: pytest.MonkeyPatch
) -> None:
    subscriber = await subscribe()
    route = stage.trigger(subscriber.endpoint)
    stage.publish(route)
    take = PartitionCursors.take

    def breaks(self: PartitionCursors, record: Any, *arguments: Any) -> Any:
        self.tail = record.offset + 1  # as far as it gets before it breaks
        if record.value == BAD:
            raise ZeroDivisionError("on purpose")
        return take(self, record, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(PartitionCursors, "take", breaks)
        ids = stage.match(route, count=20)
        ids += stage.match(route, data=BAD)
        ids += stage.match(route, count=20)
        with pytest.raises(ZeroDivisionError):
            async with stage.task() as running:
                await asyncio.wait_for(asyncio.shield(running), 60)
    async with stage.task():
        await until(lambda: set(subscriber.ids) == set(ids), "every event, those after the break included")
    lost = [key for key in stage.table(topics.REPORTS) if key.startswith(f"loss/{route.uid}/")]
    assert lost == []


@pytest.mark.timeout(300)
async def test_a_snapshot_that_breaks_the_task_ends_it(
    stage: Stage, subscribe: Subscribe, monkeypatch: pytest.MonkeyPatch
) -> None:
    subscriber = await subscribe()
    route = stage.trigger(subscriber.endpoint)
    stage.publish(route)

    def broken(_: Dispatcher, __: object) -> None:
        raise ZeroDivisionError("on purpose")

    async with stage.task() as running:
        stage.match(route)
        await until(lambda: subscriber.ids, "the first event")
        monkeypatch.setattr(Dispatcher, "apply", broken)
        stage.publish(route)
        with pytest.raises(ZeroDivisionError):
            await asyncio.wait_for(asyncio.shield(running), 60)
