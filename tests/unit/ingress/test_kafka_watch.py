"""When Kafka counts as away."""

from __future__ import annotations

import asyncio
import math

import pytest

from penstock.ingress.storage_checks import FAILURE_SECONDS, RESPONSE_SECONDS, KafkaWatch

LONG_AGO = -math.inf


class Log:
    """Kafka as the ingress sees it."""

    def __init__(self, *, reached: bool, stored: float = LONG_AGO, failed: float = LONG_AGO) -> None:
        """`stored` and `failed`: in seconds from now."""
        now = asyncio.get_running_loop().time()
        self.stored_at, self.failed_at = now + stored, now + failed
        self.questions = 0
        self._reached = reached

    async def is_available(self, seconds: float) -> bool:
        self.questions += 1
        return self._reached


async def away(log: Log) -> bool:
    watch = KafkaWatch(log)
    await watch.check()
    return watch.unreachable


async def test_an_idle_ingress_asks() -> None:
    assert not await away(Log(reached=True))
    assert await away(Log(reached=False))
    assert await away(Log(reached=False, stored=-RESPONSE_SECONDS - 1))


async def test_events_that_are_confirmed_are_proof_enough() -> None:
    log = Log(reached=False, stored=-RESPONSE_SECONDS / 2)
    assert not await away(log)
    assert log.questions == 0


async def test_a_failure_counts_although_kafka_answers_until_events_are_stored_or_time_has_passed() -> None:
    assert await away(Log(reached=True, failed=-0.5))
    assert await away(Log(reached=True, stored=-1, failed=-0.5))
    assert not await away(Log(reached=True, stored=-0.2, failed=-0.5))
    assert not await away(Log(reached=True, failed=-FAILURE_SECONDS - 1))


async def test_an_event_confirmed_while_kafka_is_asked_counts_more_than_the_missing_answer() -> None:
    log = Log(reached=False)

    async def is_available(seconds: float) -> bool:
        log.stored_at = asyncio.get_running_loop().time()
        return False

    log.is_available = is_available  # type: ignore[method-assign]
    assert not await away(log)


async def test_it_goes_on_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.ingress.storage_checks.KAFKA_CHECK_SECONDS", 0)
    log = Log(reached=True)
    task = asyncio.create_task(KafkaWatch(log).run())
    for _ in range(10):
        await asyncio.sleep(0)
    assert log.questions >= 3
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
