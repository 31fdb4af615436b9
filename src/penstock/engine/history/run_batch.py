"""Runs the history writer: one batch in a process of its own, or continuously as the role `history` of a cluster.

`python -m penstock.engine.history.run_batch --settings FILE` writes everything that is missing in the tables and exits.
It may be killed at any moment, exits with its parent process, and runs with the lowest priority unless the urgency is
`hurry`.
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
from penstock.engine.history.low_priority import SLOW_DOWN, lower_priority
from penstock.engine.history.progress_file import flush_requested
from penstock.engine.history.writer import HistoryWriter, by_spark, error_message, table_factory
from penstock.engine.processes import parent_death
from penstock.history.writer.batches import Written
from penstock.history.writer.plan import THROTTLED_SHARE, WriterPace
from penstock.kafka.topic_ends import KafkaAway
from penstock.observability.logs import configure_logging
from penstock.runtime.lifecycle import Lifecycle
from penstock.settings import Settings

GARBAGE_OBJECTS = 100_000
"""More than the objects of a batch. They contain no cycles; the search for cycles took a sixth of the writer's time."""

log = structlog.get_logger()


def main() -> None:
    """Writes one batch."""
    parser = argparse.ArgumentParser(prog="penstock.engine.history.run_batch")
    parser.add_argument("--settings", type=Path, required=True)
    parser.add_argument("--urgency", choices=("leisure", "write", "hurry"), default="hurry")
    parser.add_argument("--notify-fd", type=int, default=None)
    parser.add_argument("--life-fd", type=int, default=None)
    arguments = parser.parse_args()
    parent_death.tie(signal.SIGTERM)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    if arguments.urgency != "hurry":
        lower_priority()
    settings = load_settings(arguments.settings)
    configure_logging("history", "debug" if settings.verbose else "info", stream=sys.stdout)
    if arguments.life_fd is not None:
        threading.Thread(target=_exit_with_parent, args=(arguments.life_fd,), daemon=True).start()
    pace = WriterPace(THROTTLED_SHARE if arguments.urgency == "leisure" else 1.0, partial(flush_requested, settings))
    signal.signal(SLOW_DOWN, lambda *_: _slow_down(pace))
    gc.freeze()
    gc.set_threshold(GARBAGE_OBJECTS)
    lifecycle = Lifecycle(arguments.notify_fd)
    lifecycle.ready()

    def on_written(written: Written) -> None:
        lifecycle.status(table=written.table, records=written.records, rest=written.rest, lost=written.lost)

    try:
        writer = HistoryWriter(settings, table_factory(settings, pace), on_written)
        if writer.begun_anew:
            lifecycle.status(begun_anew=", ".join(writer.begun_anew))
        _write(writer)
        code = 0
    except Exception as error:  # the process ends; the reason is sent to the supervisor
        log.exception("the history could not be written")
        lifecycle.fail(error_message(error, settings))
        code = 1
    sys.stdout.flush()
    # Without waiting for the JVM or threads of libraries.
    os._exit(code)


def _write(writer: HistoryWriter) -> None:
    try:
        writer.write()
    except Exception:
        # Removing old days may free disk space for the next attempt. The error of the write is the one to report.
        with contextlib.suppress(Exception):
            writer.maintain()
        raise
    writer.maintain()


def _slow_down(pace: WriterPace) -> None:
    lower_priority()
    pace.slow_down(THROTTLED_SHARE)


def _exit_with_parent(life_fd: int) -> None:
    while os.read(life_fd, 1):
        pass
    os._exit(1)


EVERY_SECONDS = 60.0
"""Between the starts of two batches, if there is no backlog."""
UPKEEP_SECONDS = 3600.0


async def run(settings: Settings, lifecycle: Lifecycle, released: asyncio.Event) -> None:
    """Writes batches until the process is stopped. An error other than an unreachable Kafka ends the process."""
    opened = await asyncio.to_thread(spark.open_session, settings)
    if not await lifecycle.before_stop(released):
        return
    writer = await asyncio.to_thread(HistoryWriter, settings, by_spark(settings, opened))
    lifecycle.ready(spark=opened.version)
    maintained = 0.0
    while not lifecycle.stopping.is_set():
        began = time.monotonic()
        try:
            records = await asyncio.to_thread(writer.write)
            lifecycle.status(records=records)
            if time.monotonic() - maintained > UPKEEP_SECONDS or not maintained:
                await asyncio.to_thread(writer.maintain)
                maintained = time.monotonic()
        except KafkaAway as error:
            log.warning("waiting for Kafka", error=str(error))
        except Exception as error:  # raised again with a message for the supervisor
            raise RuntimeError(error_message(error, settings)) from error
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(lifecycle.stopping.wait(), max(0.0, EVERY_SECONDS - (time.monotonic() - began)))


if __name__ == "__main__":
    main()
