"""The role `history`: the writer as a process that stays, for a cluster. The same batches, one after the other."""

from __future__ import annotations

import asyncio
import contextlib
import time

import structlog

from penstock.engine.history import session
from penstock.engine.history.failure import told
from penstock.engine.history.work import HistoryWriter, by_spark
from penstock.kafka.topic_ends import KafkaAway
from penstock.lifecycle import Lifecycle
from penstock.settings import Settings

EVERY_SECONDS = 60.0
"""Between the beginnings of two batches; a backlog does not wait."""
UPKEEP_SECONDS = 3600.0

log = structlog.get_logger()


async def run(settings: Settings, lifecycle: Lifecycle, released: asyncio.Event) -> None:
    """Writes until told to stop. What fails for good ends the process, and whoever started it starts it again."""
    opened = await asyncio.to_thread(session.open_session, settings)
    if not await lifecycle.before_stop(released):
        return
    writer = await asyncio.to_thread(HistoryWriter, settings, by_spark(settings, opened))
    lifecycle.ready(spark=opened.version)
    looked_after = 0.0
    while not lifecycle.stopping.is_set():
        began = time.monotonic()
        try:
            records = await asyncio.to_thread(writer.write)
            lifecycle.status(records=records)
            if time.monotonic() - looked_after > UPKEEP_SECONDS or not looked_after:
                await asyncio.to_thread(writer.look_after)
                looked_after = time.monotonic()
        except KafkaAway as error:
            log.warning("waiting for Kafka", error=str(error))
        except Exception as error:  # raised again, in words for the supervisor
            raise RuntimeError(told(error, settings)) from error
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(lifecycle.stopping.wait(), max(0.0, EVERY_SECONDS - (time.monotonic() - began)))
