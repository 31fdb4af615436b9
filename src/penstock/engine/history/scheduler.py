"""Starts the writer of the history when it is time, and lets nothing that happens to it touch the stack.

It lives in the supervisor and looks at the ends of two topics now and then; between two runs of the writer there is
no process and no memory for the history. What is looked at here only says when to write; what is written, the tables
themselves say.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import time
from pathlib import Path
from typing import Any, Protocol

import structlog

from penstock.contract import topics
from penstock.engine.history.low_priority import SLOW_DOWN
from penstock.engine.history.progress_file import Hint, ask, is_asked, take_up
from penstock.engine.processes import process
from penstock.engine.processes.child_logs import ComponentLog
from penstock.engine.processes.supervisor import Component, Watch
from penstock.history.schema.columns import TABLES
from penstock.history.writer.plan import Inflow, TableStanding, Urgency, urgency
from penstock.kafka.ranges import RangeReader
from penstock.kafka.topic_ends import KafkaAway
from penstock.settings import Settings

NAME = "history"
LOOK_SECONDS = 10.0
IDLE_LOOK_SECONDS = 60.0
"""Between two looks while nothing comes."""
HURRY_LOOK_SECONDS = 3.0
"""While it hurries: nobody should have to wait for it longer than needed."""
CALM_LOOKS = 2
"""In a row, before a writer that hurries is slowed down: each change of mind may cost what it has not committed."""
REQUEST_SECONDS = 1.0
RETRY_SECONDS = (30.0, 120.0, 600.0)
"""After the first, the second and each further failure in a row."""
GUESSED_BYTES = {topics.EVENTS: 1200.0, topics.ATTEMPTS: 120.0}
"""Bytes of a record on disk, where nothing else is known."""

log = structlog.get_logger()


class KeeperRecord(Protocol):
    """Who is told what happens."""

    watches: dict[str, Watch]

    def write(self) -> None:
        """Something has changed."""

    def remark(self, watch: Watch, text: str) -> None:
        """Something that a person should read."""


class HistoryKeeper:
    """Runs the writer now and then, for as long as the stack runs."""

    def __init__(self, settings: Settings, settings_file: Path, env: dict[str, str], record: KeeperRecord) -> None:
        self._settings, self._settings_file, self._env, self._record = settings, settings_file, env, record
        self._began = time.time()
        self._reader: RangeReader | None = None
        self._failures = 0
        self._told: str | None = None
        self._seen: tuple[int, ...] = ()
        self._inflow = Inflow()
        self._moved = True
        self._looking = threading.Lock()

    async def run(self, stopping: asyncio.Event, kafka_ready: asyncio.Event) -> None:
        """Until the stack stops. Raises nothing: delivery goes on without a history."""
        component = Component(NAME, self._command, stage=9)
        watch = Watch(component, ComponentLog(self._settings.data_dir / "logs", NAME))
        self._record.watches[NAME] = watch
        self._show(watch, "resting")
        try:
            await _either(kafka_ready.wait(), stopping)
            while not stopping.is_set():
                try:
                    await self._round(watch, stopping)
                except Exception as error:  # the stack does not depend on the history, whatever is wrong with it
                    log.exception("the history is not kept for now")
                    await self._failed(watch, str(error), stopping)
        finally:
            watch.log.close()
            await asyncio.to_thread(self._leave)

    async def _round(self, watch: Watch, stopping: asyncio.Event) -> None:
        """Waits until it is time to write, and writes."""
        wanted = await self._wait(stopping)
        if stopping.is_set():
            return
        take_up(self._settings)
        if wanted == "hurry":
            self._record.remark(watch, "much is unwritten: writing with full priority, before retention takes it")
        reason = await self._write(watch, wanted, stopping)
        if reason is None:
            self._failures, self._told = 0, None
        elif not stopping.is_set():
            await self._failed(watch, reason, stopping)

    async def _wait(self, stopping: asyncio.Event) -> Urgency:
        pause = LOOK_SECONDS
        while not stopping.is_set():
            asked = await self._asked_within(pause, stopping)
            if stopping.is_set():
                break
            found = await asyncio.to_thread(self._look, asked)
            if found != "rest":
                return found
            if asked:
                take_up(self._settings)
            pause = LOOK_SECONDS if self._moved else min(pause * 2, IDLE_LOOK_SECONDS)
        return "rest"

    async def _asked_within(self, seconds: float, stopping: asyncio.Event) -> bool:
        """Whether somebody asks for the history to be written, before so much time has passed."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and not stopping.is_set():
            if is_asked(self._settings):
                return True
            await _either(asyncio.sleep(REQUEST_SECONDS), stopping)
        return False

    def _look(self, asked: bool) -> Urgency:
        """Whether it is time. A Kafka that is away is waited for: nothing gathers meanwhile."""
        with self._looking:
            return self._judge(asked)

    def _judge(self, asked: bool) -> Urgency:
        hint = Hint.read(self._settings.data_dir)
        try:
            self._reader = self._reader or RangeReader(self._settings)
            standings = [
                TableStanding(
                    table.topic,
                    self._reader.retained(table.topic),
                    hint.positions.get(table.name, {}),
                    GUESSED_BYTES[table.topic],
                )
                for table in TABLES
            ]
        except KafkaAway:
            self._leave()
            return "rest"
        seen = tuple(kept.end for standing in standings for kept in standing.retained.values())
        self._moved, self._seen = seen != self._seen, seen
        rate = self._inflow.rate(sum(seen), time.monotonic())
        if not self._moved:
            self._leave()
        hours = (time.time() - max(hint.written, self._began)) / 3600
        return urgency(standings, self._settings, hours, asked, rate)

    def _leave(self) -> None:
        """Where nothing comes, no client of Kafka is kept between two looks."""
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    async def _write(self, watch: Watch, wanted: Urgency, stopping: asyncio.Event) -> str | None:
        """One run of the writer; why it failed, or None."""
        reason: list[str] = []
        begun = asyncio.Event()

        def heard(message: dict[str, Any]) -> None:
            begun.set()
            if message.pop("event", None) == "fail":
                reason.append(str(message.get("reason")))
            elif message:
                self._remark_on(watch, message)
                watch.details.update(message)
                self._record.write()

        command = [*await self._command(), "--urgency", wanted]
        child = await process.spawn(NAME, command, self._env, heard=heard, logged=watch.log.write, speaks=True)
        watch.child = child
        self._show(watch, "writing")
        try:
            hurry = self._has_to_hurry(child, wanted, begun)
            ended = await _first_of(child.wait(), stopping.wait(), hurry)
            if ended == 0:
                code = child.code
                return None if code == 0 else (reason[-1] if reason else f"its process ended with {code}")
            # Safe at any moment: what is not committed is not there, and is written by the next run.
            await child.stop(0.5)
            if ended == 2:
                self._record.remark(watch, "events come faster than they are written: going on with full priority")
                return await self._write(watch, "hurry", stopping)
            return None
        finally:
            watch.child = None
            self._show(watch, "resting")

    def _remark_on(self, watch: Watch, message: dict[str, Any]) -> None:
        """Says what a person would miss: what is not in the tables, though it was there or should be."""
        if gone := message.get("begun_anew"):
            self._record.remark(watch, f"written before and gone: {gone}. New tables begin with what Kafka still has")
        if lost := message.get("lost"):
            table = message.get("table")
            self._record.remark(watch, f"Kafka removed {lost} records before they were written to the table {table}")

    async def _has_to_hurry(self, child: process.Child, wanted: Urgency, begun: asyncio.Event) -> None:
        """Ends when it has to and does not. Whatever else it should do, it is told, and loses nothing by it."""
        with contextlib.suppress(TimeoutError):  # one that does not even get to begin has to hurry, too
            await asyncio.wait_for(begun.wait(), LOOK_SECONDS)
        calm = 0
        while True:
            found = await asyncio.to_thread(self._look, False)
            calm = calm + 1 if found in ("rest", "leisure") else 0
            if found == "hurry" and wanted != "hurry":
                return
            if calm >= CALM_LOOKS and wanted == "hurry" and begun.is_set():
                child.signal(SLOW_DOWN)
                wanted = "leisure"
            elif found == "write" and wanted == "leisure":
                with contextlib.suppress(OSError):  # a full disk: it goes on as it is
                    ask(self._settings)
            await asyncio.sleep(HURRY_LOOK_SECONDS if wanted == "hurry" else LOOK_SECONDS)

    async def _failed(self, watch: Watch, reason: str, stopping: asyncio.Event) -> None:
        """Says so once, not at every try, and waits before the next."""
        pause = RETRY_SECONDS[min(self._failures, len(RETRY_SECONDS) - 1)]
        self._failures += 1
        watch.restarts += 1
        if reason != self._told:
            self._told = reason
            self._record.remark(watch, f"the history could not be written: {reason}. Delivery goes on; trying again")
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
    """The number of the work that ended first; raises what it raised. The others are cancelled."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        return min(tasks.index(task) for task in done)
    finally:
        for task in tasks:
            task.cancel()
        # Raises only if this task is cancelled as well, which nobody may miss.
        await asyncio.gather(*tasks, return_exceptions=True)
