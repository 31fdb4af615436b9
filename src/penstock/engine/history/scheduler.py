"""Starts the history writer of a stack when there is enough to write.

The scheduler runs in the supervisor and compares the ends of two topics with the progress file; between two runs of the
writer the history takes no process and no memory. Errors of the writer never stop the stack.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import structlog

from penstock.contract import topics
from penstock.engine.history.low_priority import SLOW_DOWN
from penstock.engine.history.progress_file import HistoryProgress, clear_flush_request, flush_requested, request_flush
from penstock.engine.processes import process
from penstock.engine.processes.child_logs import ComponentLog
from penstock.engine.processes.supervisor import Component, Watch
from penstock.history.reader.tables import HOW_TO_INSTALL
from penstock.history.schema.columns import TABLES
from penstock.history.writer.plan import Inflow, TableStanding, Urgency, urgency
from penstock.kafka.ranges import RangeReader
from penstock.kafka.topic_ends import KafkaAway
from penstock.runtime.errors import UserError
from penstock.settings import Settings

NAME = "history"
LOOK_SECONDS = 10.0
IDLE_LOOK_SECONDS = 60.0
"""Longest interval of checks while there are no new events."""
HURRY_LOOK_SECONDS = 3.0
"""Interval while the writer runs unthrottled, so that it is throttled again soon."""
CALM_LOOKS = 2
"""Consecutive checks before an unthrottled writer is throttled: each restart loses what is not committed."""
REQUEST_SECONDS = 1.0
RETRY_SECONDS = (30.0, 120.0, 600.0)
"""After the first, the second and every further consecutive failure."""
GUESSED_BYTES = {topics.EVENTS: 1200.0, topics.ATTEMPTS: 120.0}
"""Assumed size of a record in a table."""

log = structlog.get_logger()


PACKAGES = ("deltalake", "duckdb", "pyarrow")


def without_missing_packages(settings: Settings) -> tuple[Settings, list[str]]:
    """The settings without the history if its packages are not installed, and notices for the user.

    Raises UserError if the history is enabled explicitly.
    """
    lacking = [name for name in PACKAGES if find_spec(name) is None] if settings.history else []
    if not lacking:
        return settings, []
    what = f"The history of events is not kept: {', '.join(lacking)} not installed."
    if "history" in settings.model_fields_set:
        raise UserError(what, f"{HOW_TO_INSTALL}. Or set history=false.")
    return settings.model_copy(update={"history": False}), [f"{what} {HOW_TO_INSTALL}"]


class SchedulerRecord(Protocol):
    """Receives the state of the writer."""

    watches: dict[str, Watch]

    def write(self) -> None:
        """Called when the state has changed."""

    def remark(self, watch: Watch, text: str) -> None:
        """A notice for the user."""


class HistoryScheduler:
    """Runs the writer when needed, as long as the stack runs."""

    def __init__(self, settings: Settings, settings_file: Path, env: dict[str, str], record: SchedulerRecord) -> None:
        self._settings, self._settings_file, self._env, self._record = settings, settings_file, env, record
        self._began = time.time()
        self._reader: RangeReader | None = None
        self._failures = 0
        self._last_error: str | None = None
        self._seen: tuple[int, ...] = ()
        self._inflow = Inflow()
        self._has_moved = True
        self._looking = threading.Lock()

    async def run(self, stopping: asyncio.Event, kafka_ready: asyncio.Event) -> None:
        """Runs until the stack stops. Raises nothing: events are delivered without a history, too."""
        component = Component(NAME, self._command, stage=9)
        watch = Watch(component, ComponentLog(self._settings.data_dir / "logs", NAME))
        self._record.watches[NAME] = watch
        self._show(watch, "resting")
        try:
            await _either(kafka_ready.wait(), stopping)
            while not stopping.is_set():
                try:
                    await self._wait_and_write(watch, stopping)
                except Exception as error:  # no error of the history may stop the stack
                    log.exception("the history writer could not be run")
                    await self._failed(watch, str(error), stopping)
        finally:
            watch.log.close()
            await asyncio.to_thread(self._close_reader)

    async def _wait_and_write(self, watch: Watch, stopping: asyncio.Event) -> None:
        """Waits until it is time to write, and writes."""
        wanted = await self._wait(stopping)
        if stopping.is_set():
            return
        clear_flush_request(self._settings)
        if wanted == "hurry":
            self._record.remark(
                watch, "there is a large backlog: writing with full priority, before Kafka removes the events"
            )
        reason = await self._write(watch, wanted, stopping)
        if reason is None:
            self._failures, self._last_error = 0, None
        elif not stopping.is_set():
            await self._failed(watch, reason, stopping)

    async def _wait(self, stopping: asyncio.Event) -> Urgency:
        pause = LOOK_SECONDS
        while not stopping.is_set():
            asked = await self._flush_requested_within(pause, stopping)
            if stopping.is_set():
                break
            found = await asyncio.to_thread(self._look, asked)
            if found != "rest":
                return found
            if asked:
                clear_flush_request(self._settings)
            pause = LOOK_SECONDS if self._has_moved else min(pause * 2, IDLE_LOOK_SECONDS)
        return "rest"

    async def _flush_requested_within(self, seconds: float, stopping: asyncio.Event) -> bool:
        """Waits for a flush request, at most so long; whether there was one."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and not stopping.is_set():
            if flush_requested(self._settings):
                return True
            await _either(asyncio.sleep(REQUEST_SECONDS), stopping)
        return False

    def _look(self, asked: bool) -> Urgency:
        """How urgent it is to write. "rest" while Kafka is unreachable."""
        with self._looking:
            return self._urgency_now(asked)

    def _urgency_now(self, asked: bool) -> Urgency:
        progress = HistoryProgress.read(self._settings.data_dir)
        try:
            self._reader = self._reader or RangeReader(self._settings)
            standings = [
                TableStanding(
                    table.topic,
                    self._reader.retained(table.topic),
                    progress.positions.get(table.name, {}),
                    GUESSED_BYTES[table.topic],
                )
                for table in TABLES
            ]
        except KafkaAway:
            self._close_reader()
            return "rest"
        seen = tuple(kept.end for standing in standings for kept in standing.retained.values())
        self._has_moved, self._seen = seen != self._seen, seen
        rate = self._inflow.rate(sum(seen), time.monotonic())
        if not self._has_moved:
            self._close_reader()
        hours = (time.time() - max(progress.written, self._began)) / 3600
        return urgency(standings, self._settings, hours, asked, rate)

    def _close_reader(self) -> None:
        """Closes the Kafka client, which is not kept while there are no new events."""
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    async def _write(self, watch: Watch, wanted: Urgency, stopping: asyncio.Event) -> str | None:
        """Runs the writer once; the reason if it failed, otherwise None."""
        reason: list[str] = []
        started = asyncio.Event()

        def on_message(message: dict[str, Any]) -> None:
            started.set()
            if message.pop("event", None) == "fail":
                reason.append(str(message.get("reason")))
            elif message:
                self._remark_losses(watch, message)
                watch.details.update(message)
                self._record.write()

        command = [*await self._command(), "--urgency", wanted]
        child = await process.spawn(
            NAME, command, self._env, on_message=on_message, on_line=watch.log.write, reports=True
        )
        watch.child = child
        self._show(watch, "writing")
        try:
            hurry = self._hurry_needed(child, wanted, started)
            ended = await _first_of(child.wait(), stopping.wait(), hurry)
            if ended == 0:
                code = child.code
                return None if code == 0 else (reason[-1] if reason else f"its process ended with {code}")
            # Safe at any moment: what is not committed is written by the next run.
            await child.stop(0.5)
            if ended == 2:
                self._record.remark(watch, "events arrive faster than they are written: continuing with full priority")
                return await self._write(watch, "hurry", stopping)
            return None
        finally:
            watch.child = None
            self._show(watch, "resting")

    def _remark_losses(self, watch: Watch, message: dict[str, Any]) -> None:
        """Reports events that are missing in the tables although they were, or should be, there."""
        if gone := message.get("begun_anew"):
            self._record.remark(watch, f"these tables are gone: {gone}. New ones begin with what Kafka still has")
        if lost := message.get("lost"):
            table = message.get("table")
            self._record.remark(watch, f"Kafka removed {lost} records before they were written to the table {table}")

    async def _hurry_needed(self, child: process.Child, wanted: Urgency, started: asyncio.Event) -> None:
        """Returns when a throttled writer falls behind and must be restarted. Other changes need no restart."""
        with contextlib.suppress(TimeoutError):  # one that is too slow to start needs a higher priority, too
            await asyncio.wait_for(started.wait(), LOOK_SECONDS)
        calm = 0
        while True:
            found = await asyncio.to_thread(self._look, False)
            calm = calm + 1 if found in ("rest", "leisure") else 0
            if found == "hurry" and wanted != "hurry":
                return
            if calm >= CALM_LOOKS and wanted == "hurry" and started.is_set():
                child.signal(SLOW_DOWN)
                wanted = "leisure"
            elif found == "write" and wanted == "leisure":
                with contextlib.suppress(OSError):  # a full disk: the pace stays as it is
                    request_flush(self._settings)
            await asyncio.sleep(HURRY_LOOK_SECONDS if wanted == "hurry" else LOOK_SECONDS)

    async def _failed(self, watch: Watch, reason: str, stopping: asyncio.Event) -> None:
        """Reports an error once, not at every attempt, and waits before the next attempt."""
        pause = RETRY_SECONDS[min(self._failures, len(RETRY_SECONDS) - 1)]
        self._failures += 1
        watch.restarts += 1
        if reason != self._last_error:
            self._last_error = reason
            self._record.remark(watch, f"the history could not be written: {reason}. Deliveries continue; trying again")
        watch.details["problem"] = reason
        self._record.write()
        await _either(asyncio.sleep(pause), stopping)

    async def _command(self) -> list[str]:
        return [sys.executable, "-m", "penstock.engine.history.run_batch", "--settings", str(self._settings_file)]

    def _show(self, watch: Watch, state: Any) -> None:
        watch.state, watch.since = state, time.time()
        if state == "writing":
            watch.details = {}
        self._record.write()


async def _either(work: Any, stopping: asyncio.Event) -> None:
    await _first_of(work, stopping.wait())


async def _first_of(*works: Any) -> int:
    """The index of the coroutine that ended first; raises its error. The others are cancelled."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        return min(tasks.index(task) for task in done)
    finally:
        for task in tasks:
            task.cancel()
        # Raises only if this task is cancelled as well.
        await asyncio.gather(*tasks, return_exceptions=True)
