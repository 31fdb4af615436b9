"""A partition of the cursors has no leader: the others of the task are delivered and flushed, also after a restart."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import msgspec
import pytest

from penstock.contract import topics
from penstock.kafka.transactions import load_partition
from penstock.settings import Settings
from tests.integration.dispatcher.dispatcher_stage import Stage, Subscribe
from tests.waiting import until
from tools.cluster.kafka import running_cluster

if TYPE_CHECKING:
    from penstock.engine.jars.jar_cache import Jars

pytestmark = pytest.mark.long

HERE, AWAY = 0, 1
"""Partitions: the cursors of the second one are on a broker that is killed."""


def flushed(settings: Settings, partition: int) -> int:
    """How far the tail of a partition is written down."""
    found = load_partition(settings, "test", topics.CURSORS, partition, threading.Event())
    tail = found.get(f"tail/{partition}")
    return 0 if tail is None else int(msgspec.json.decode(tail.value)["next"])


def outstanding(settings: Settings, partition: int) -> bool:
    """Whether the cursors of a partition have deliveries that are not written down as done."""
    found = load_partition(settings, "test", topics.CURSORS, partition, threading.Event())
    cursors = [msgspec.json.decode(entry.value) for key, entry in found.items() if key.endswith(f"/{partition}")]
    return any(cursor.get("outstanding") for cursor in cursors)


@pytest.mark.timeout(400)
async def test_the_others_are_delivered_and_flushed(
    tmp_path_factory: pytest.TempPathFactory, jar_folders: Jars, subscribe: Subscribe
) -> None:
    with running_cluster(tmp_path_factory.mktemp("leaderless"), jar_folders, brokers=3) as cluster:
        settings = Settings(
            data_dir=tmp_path_factory.mktemp("dispatcher"), kafka=cluster.plain, partitions=2, replication=1
        )
        cluster.make_topics(settings, {(topics.CURSORS, AWAY): 3})
        stage, subscriber = Stage(settings), await subscribe()
        route = stage.trigger(subscriber.endpoint)
        stage.publish(route)
        away = cluster.brokers[2]

        def match(partition: int) -> set[str]:
            return set(stage.match(route, count=10, partition=partition))

        before = match(HERE) | match(AWAY)
        async with stage.task(drain_seconds=1):
            await until(lambda: before <= set(subscriber.ids), "what came before")
            await until(lambda: flushed(settings, AWAY) == 10, "the cursors of both partitions")
            await until(lambda: not outstanding(settings, AWAY), "that all deliveries are written down")
            away.kill()
            second = match(HERE) | match(AWAY)
            await until(lambda: second <= set(subscriber.ids), "both partitions, one of which cannot be flushed")
            await until(lambda: flushed(settings, HERE) == 20, "the cursors of the other one")
        seen = len(subscriber.ids)
        async with stage.task(drain_seconds=1):
            third, waiting = match(HERE), match(AWAY)
            await until(lambda: third <= set(subscriber.ids), "the partition that can be taken over")
            await until(lambda: flushed(settings, HERE) == 30, "its cursors")
            assert not waiting & set(subscriber.ids), "nothing tells where the other one has got to"
            cluster.start(away)
            await until(lambda: waiting <= set(subscriber.ids), "the other one, when it has a leader", 120)
            await until(lambda: flushed(settings, AWAY) == 30, "its cursors", 120)
        again = set(subscriber.ids[seen:]) - third - waiting
        assert again <= second, "only what could not be written down comes again"
        stage.close()
