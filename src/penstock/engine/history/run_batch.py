"""The process that writes what has gathered and ends: `python -m penstock.engine.history.run_batch --settings <file>`.

It may be killed at any moment. It ends with the one that started it, and gives way to everything else unless it has to
hurry.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import os
import signal
import sys
import threading
import time
from functools import partial
from pathlib import Path

import structlog

from penstock.engine.datadir import load_settings
from penstock.engine.history import spark
from penstock.engine.history.files import is_asked
from penstock.engine.history.low_priority import SLOW_DOWN, give_way
from penstock.engine.history.writer import HistoryWriter, by_spark, fitting, told
from penstock.engine.processes import parent_death
from penstock.history.writer.batches import Written
from penstock.history.writer.plan import THROTTLED_SHARE, WriterPace
from penstock.kafka.topic_ends import KafkaAway
from penstock.observability.logs import configure_logging
from penstock.runtime.lifecycle import Lifecycle
from penstock.settings import Settings

GARBAGE_OBJECTS = 100_000
"""More than a thousand records become. They hold no cycles: looking for some took a sixth of the writer's time."""

log = structlog.get_logger()


def main() -> None:
    """Writes once."""
    parser = argparse.ArgumentParser(prog="penstock.engine.history.run_batch")
    parser.add_argument("--settings", type=Path, required=True)
    parser.add_argument("--urgency", choices=("leisure", "write", "hurry"), default="hurry")
    parser.add_argument("--notify-fd", type=int, default=None)
    parser.add_argument("--life-fd", type=int, default=None)
    arguments = parser.parse_args()
    parent_death.tie(signal.SIGTERM)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    if arguments.urgency != "hurry":
        give_way()
    settings = load_settings(arguments.settings)
    configure_logging("history", "debug" if settings.verbose else "info", stream=sys.stdout)
    if arguments.life_fd is not None:
        threading.Thread(target=_end_with, args=(arguments.life_fd,), daemon=True).start()
    pace = WriterPace(THROTTLED_SHARE if arguments.urgency == "leisure" else 1.0, partial(is_asked, settings))
    signal.signal(SLOW_DOWN, lambda *_: _slow_down(pace))
    gc.freeze()
    gc.set_threshold(GARBAGE_OBJECTS)
    lifecycle = Lifecycle(arguments.notify_fd)
    lifecycle.ready()

    def heard(written: Written) -> None:
        lifecycle.status(table=written.table, records=written.records, rest=written.rest, lost=written.lost)

    try:
        writer = HistoryWriter(settings, fitting(settings, pace), heard)
        if writer.begun_anew:
            lifecycle.status(begun_anew=", ".join(writer.begun_anew))
        _write(writer)
        code = 0
    except Exception as error:  # the process ends; its supervisor is shown why
        log.exception("the history could not be written")
        lifecycle.fail(told(error, settings))
        code = 1
    sys.stdout.flush()
    # Neither the JVM nor threads of libraries hold up the end.
    os._exit(code)


def _write(writer: HistoryWriter) -> None:
    try:
        writer.write()
    except Exception:
        # Raised again below. Where there is no room to write, this makes some; what is told is why nothing was written.
        with contextlib.suppress(Exception):
            writer.look_after()
        raise
    writer.look_after()


def _slow_down(pace: WriterPace) -> None:
    give_way()
    pace.slow_down(THROTTLED_SHARE)


def _end_with(life_fd: int) -> None:
    while os.read(life_fd, 1):
        pass
    os._exit(1)


# The role `history`: the writer as a process that stays, for a cluster. The same batches, one after the other.

EVERY_SECONDS = 60.0
"""Between the beginnings of two batches; a backlog does not wait."""
UPKEEP_SECONDS = 3600.0


async def run(settings: Settings, lifecycle: Lifecycle, released: asyncio.Event) -> None:
    """Writes until told to stop. What fails for good ends the process, and whoever started it starts it again."""
    opened = await asyncio.to_thread(spark.open_session, settings)
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


if __name__ == "__main__":
    main()
