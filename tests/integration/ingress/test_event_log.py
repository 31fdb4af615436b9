"""The producer's life on a real Kafka."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from penstock.contract.records import EventRecord, record_of
from penstock.events.event import CloudEvent
from penstock.kafka.events import FEW, MANY, EventWriter, NoRoom, NotStored, RecordTooLarge
from penstock.settings import Settings
from tests.integration.ingress.ingress_processes import stored_ids


def record(ident: str) -> EventRecord:
    return record_of(CloudEvent({"specversion": "1.0", "id": ident, "source": "/log", "type": "t"}), [])


def writer(settings: Settings) -> EventWriter:
    return EventWriter(settings, "ingress", _unexpected, timeout_seconds=settings.store_timeout_seconds)


def _unexpected(error: BaseException) -> None:
    raise AssertionError("the writer failed") from error


async def stored(log: EventWriter, *records: EventRecord) -> None:
    """Stores, and waits for Kafka's word."""
    confirmed = asyncio.get_running_loop().create_future()
    log.store(records, confirmed.set_result)
    error = await asyncio.wait_for(confirmed, 60)
    if error is not None:
        raise error


async def test_a_broken_producer_is_replaced_and_what_it_held_is_answered(ingress_kafka: Settings) -> None:
    log = writer(ingress_kafka)
    await stored(log, record("warm"))
    quick = log._options["linger.ms"]
    log._options["linger.ms"] = 10_000  # so that what it holds has certainly not left it
    log._broken = True
    held = asyncio.create_task(stored(log, record("held")))
    await asyncio.sleep(0)
    log._options["linger.ms"] = quick
    log._broken = True
    after = uuid.uuid4().hex
    await stored(log, record(after))
    with pytest.raises(NotStored):
        await held
    assert await log.close(60) == 0
    assert log._replaced == []
    assert after in stored_ids(ingress_kafka)


async def test_what_does_not_fit_is_refused_before_anything_is_written(ingress_kafka: Settings) -> None:
    log = writer(ingress_kafka.model_copy(update={"max_pending_events": 3}))
    waiting = asyncio.create_task(stored(log, record("a"), record("b")))
    await asyncio.sleep(0)
    refused = uuid.uuid4().hex
    with pytest.raises(NoRoom):
        await stored(log, record(refused), record(refused))
    with pytest.raises(RecordTooLarge, match="3 events"):
        await stored(log, *[record(refused)] * 4)
    await waiting
    assert (log.pending, await log.close(60)) == (0, 0)
    assert refused not in stored_ids(ingress_kafka)


async def test_an_answer_that_fails_stops_nobody(ingress_kafka: Settings) -> None:
    log = writer(ingress_kafka)

    def fail(_: Exception | None) -> None:
        raise ZeroDivisionError("on purpose")

    log.store([record("fails")], fail)
    await stored(log, record("other"))
    await stored(log)
    await stored(log, record("after"))
    assert (log.pending, await log.close(60)) == (0, 0)


async def test_what_comes_while_others_are_under_way_is_gathered_and_written_in_order(ingress_kafka: Settings) -> None:
    log = writer(ingress_kafka)
    prefix = uuid.uuid4().hex
    attributes = {"specversion": "1.0", "source": "/log", "type": "t", "partitionkey": "k"}
    keyed = [record_of(CloudEvent({**attributes, "id": f"{prefix}-{number}"}), []) for number in range(50)]
    waiting = [asyncio.create_task(stored(log, each)) for each in keyed]
    await asyncio.sleep(0)
    assert len(log._gathered) == len(keyed) - FEW
    assert log.pending == len(keyed)
    await asyncio.gather(*waiting)
    assert [found for found in stored_ids(ingress_kafka) if found.startswith(prefix)] == [
        f"{prefix}-{n}" for n in range(50)
    ]
    assert (log.pending, await log.close(60)) == (0, 0)


async def test_a_gathered_record_that_is_refused_is_answered_and_harms_no_other(ingress_kafka: Settings) -> None:
    log = writer(ingress_kafka)
    large = EventRecord([], b"x" * (ingress_kafka.max_record_bytes + 1), None)
    tasks = [asyncio.create_task(stored(log, record(uuid.uuid4().hex))) for _ in range(FEW + 1)]
    await asyncio.sleep(0)
    refused = asyncio.create_task(stored(log, large))
    half_refused = asyncio.create_task(stored(log, record("half"), large))
    after = asyncio.create_task(stored(log, record("after")))
    with pytest.raises(RecordTooLarge):
        await refused
    with pytest.raises(NotStored):
        await half_refused
    await asyncio.gather(*tasks, after)
    assert (log.pending, await log.close(60)) == (0, 0)


async def test_a_request_with_many_events_is_written_at_once_behind_what_was_gathered(ingress_kafka: Settings) -> None:
    log = writer(ingress_kafka)
    prefix = uuid.uuid4().hex
    attributes = {"specversion": "1.0", "source": "/log", "type": "t", "partitionkey": "k"}
    keyed = [
        record_of(CloudEvent({**attributes, "id": f"{prefix}-{number:02}"}), []) for number in range(FEW + 2 + MANY)
    ]
    alone, batch = keyed[: FEW + 2], keyed[FEW + 2 :]
    waiting = [asyncio.create_task(stored(log, each)) for each in alone]
    waiting.append(asyncio.create_task(stored(log, *batch)))
    await asyncio.sleep(0)
    assert (log._gathered, log.pending) == ([], len(keyed))
    await asyncio.gather(*waiting)
    assert [found for found in stored_ids(ingress_kafka) if found.startswith(prefix)] == [
        f"{prefix}-{number:02}" for number in range(len(keyed))
    ]
    assert (log.pending, await log.close(60)) == (0, 0)
