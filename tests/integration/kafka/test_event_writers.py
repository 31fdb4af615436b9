"""The ingress and replies write events by the same rules."""

from __future__ import annotations

import asyncio
import time

import pytest
from confluent_kafka import KafkaError

from penstock.contract import topics
from penstock.contract.records import record_of
from penstock.dispatcher.delivery.replies import ReplyNotStored, ReplyWriter
from penstock.events.event import CloudEvent
from penstock.kafka.events import EventWriter
from penstock.runtime.tasks import TaskScope
from penstock.settings import Settings
from tests.running import headers_of, read_to_end

TRACE = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"


def event(ident: str, key: str) -> CloudEvent:
    attributes = {"specversion": "1.0", "id": ident, "source": "/s", "type": "t", "partitionkey": key}
    return CloudEvent(attributes, b"{}")


def partitions(settings: Settings, prefix: str) -> dict[str, int]:
    """The partition of each event whose id begins so."""
    found = dict[str, int]()
    for message in read_to_end(settings, topics.EVENTS):
        ident, partition = headers_of(message).get("ce_id", b"").decode(), message.partition()
        if ident.startswith(prefix):
            assert partition is not None
            found[ident.removeprefix(prefix)] = partition
    return found


async def test_a_key_has_one_partition_whoever_writes_it(kafka: Settings) -> None:
    scope = TaskScope()
    ingress = EventWriter(kafka, "ingress", scope.fail, timeout_seconds=10)
    replies = ReplyWriter(kafka, scope.fail)
    keys = [f"key-{number}" for number in range(40)]
    prefix = f"{time.time_ns()}-"
    confirmed = asyncio.get_running_loop().create_future()
    ingress.store([record_of(event(f"{prefix}accepted-{key}", key), []) for key in keys], confirmed.set_result)
    assert await asyncio.wait_for(confirmed, 20) is None
    stores = [
        replies.store("b", event(f"{prefix}replied-{key}", key), None, [], span=TRACE, tracestate=None) for key in keys
    ]
    await asyncio.wait_for(asyncio.gather(*stores), 20)
    await ingress.close(5)
    await replies.close()
    found = partitions(kafka, prefix)
    assert [found[f"accepted-{key}"] for key in keys] == [found[f"replied-{key}"] for key in keys]
    assert len(set(found.values())) > 1
    scope.check()


async def test_replies_go_on_after_a_fatal_error(kafka: Settings) -> None:
    scope = TaskScope()
    replies = ReplyWriter(kafka, scope.fail)
    fatal = KafkaError(KafkaError._FATAL, "on purpose", fatal=True)
    await asyncio.wait_for(replies.store("b", event("before", "k"), None, [], span=TRACE, tracestate=None), 20)
    replies._writer._on_error(fatal)
    await asyncio.wait_for(replies.store("b", event("after", "k"), None, [], span=TRACE, tracestate=None), 20)
    large = CloudEvent(event("large", "k").attributes, b"x" * (kafka.max_event_bytes + 1))
    with pytest.raises(ReplyNotStored, match="larger than an event may be"):
        await replies.store("b", large, None, [], span=TRACE, tracestate=None)
    await replies.close()
