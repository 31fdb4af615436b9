"""The heart of a task: takes records, runs deliveries, follows the snapshot, and knows what has to be written down.

All of it runs on one event loop; nothing here blocks. Reading, writing and sending are given in.
"""

from __future__ import annotations

import asyncio
import time

from penstock.contract.routes import Route
from penstock.contract.snapshot import Snapshot
from penstock.dispatcher.cursors import stage_payload as stage_payloads
from penstock.dispatcher.cursors.cursor import Cursor, Stage
from penstock.dispatcher.cursors.cursor_store import Entry, Restored
from penstock.dispatcher.cursors.partition import Lost, NewDelivery, PartitionCursors
from penstock.dispatcher.cursors.stage_payload import Failure, StagePayload
from penstock.dispatcher.cursors.unflushed import Unflushed
from penstock.dispatcher.delivery.attempt import AttemptResult, AttemptSender
from penstock.dispatcher.delivery.decision import DeadLetter, Done, Dropped, Reply, Retry, Step, next_step
from penstock.dispatcher.delivery.telemetry import Telemetry
from penstock.dispatcher.matched.recent import Recent
from penstock.dispatcher.matched.record import Matched
from penstock.dispatcher.schedule.lanes import Job, Lane, Schedule
from penstock.dispatcher.schedule.memory import Memory
from penstock.dispatcher.schedule.workers import Workers
from penstock.log.random_reader import Chunk, RandomReader
from penstock.log.reports import Reporter
from penstock.settings import Settings

PAYLOAD_LIMIT_BYTES = 16 * 1024 * 1024
"""Replies that a route may have waiting; beyond that it has no room."""
UNKNOWN_SECONDS = 60.0
"""How long records wait for a route that the snapshot does not know (yet)."""
SHARE = 16
"""Deliveries every route may have even when the task as a whole has more than its limit."""
LONG_WAIT_SECONDS = 0.5
RECENT_SHARE = 4
"""The part (a quarter) of the memory for events that is for routes which are a little behind."""


class Dispatcher:
    """The deliveries of some partitions."""

    def __init__(
        self,
        settings: Settings,
        partitions: list[int],
        sender: AttemptSender,
        reread: RandomReader[Matched],
        reporter: Reporter,
    ) -> None:
        self._settings, self._sender, self._reread, self._reporter = settings, sender, reread, reporter
        self.partitions = {partition: PartitionCursors(partition) for partition in partitions}
        self.unflushed = {partition: Unflushed(cursors) for partition, cursors in self.partitions.items()}
        self.schedule = Schedule(settings.max_in_flight_total)
        recent = settings.delivery_memory_mib * 1024 * 1024 // RECENT_SHARE
        self.memory = Memory(settings.delivery_memory_mib * 1024 * 1024 - recent)
        self.recent = {partition: Recent(recent // len(partitions)) for partition in partitions}
        self.lanes: dict[str, Lane] = {}
        self.snapshot = Snapshot()
        self.may_catch_up = asyncio.Event()
        """Set when a detached route may have room again."""
        self.outstanding = 0
        self._gone: dict[str, None] = {}
        self._unknown: dict[str, float] = {}
        self._telemetry = Telemetry(self.unflushed, reporter)
        self._workers = Workers(self.schedule, self._run, self._telemetry.has_room)
        self.pump = self._workers.pump
        """Starts whatever may start."""
        self.drain = self._workers.drain

    # --- what comes in -------------------------------------------------------------------------------------------

    def apply(self, snapshot: Snapshot) -> None:
        """Acts by a snapshot from now on; deliveries under way see changes from their next attempt on."""
        if snapshot.version < self.snapshot.version:
            return
        before, self.snapshot = self.snapshot, snapshot
        self._sender.names = snapshot.names
        for uid in [uid for uid in self.lanes if uid not in snapshot.routes]:
            self._remove(uid)
        for uid, route in snapshot.routes.items():
            if before.routes.get(uid) is not route:
                self._adopt(route)
        self._reporter.ack(snapshot.version)
        self.may_catch_up.set()
        self.pump()

    def _adopt(self, route: Route) -> None:
        self._gone.pop(route.uid, None)
        self._unknown.pop(route.uid, None)
        limit = route.max_in_flight or self._settings.max_in_flight
        lane = self.lanes.get(route.uid)
        if lane is None:
            self.lanes[route.uid] = Lane(route, limit)
            return
        lane.route, lane.limit = route, limit
        self.schedule.reached(lane)  # perhaps: it may lead elsewhere now

    def _remove(self, uid: str) -> None:
        """Cancels what waits; a request under way ends, and nothing follows it."""
        lane = self.lanes.pop(uid)
        for job in self.schedule.close(lane):
            self.memory.release(job.record)
        self._forget(uid)
        self._telemetry.forget(uid)

    def _forget(self, uid: str) -> None:
        self._gone[uid] = None
        while len(self._gone) > 10_000:
            self._gone.pop(next(iter(self._gone)))
        for partition, cursors in self.partitions.items():
            cursor = cursors.cursors.get(uid)
            if cursor is not None:
                self.outstanding -= len(cursor.outstanding)
                cursors.forget(uid)
                self.unflushed[partition].removed(cursor)

    def restore(self, partition: int, restored: Restored) -> None:
        """Goes on where the cursors say; the snapshot must be in force."""
        cursors, now = self.partitions[partition], time.time()
        cursors.tail = restored.tail
        cursors.restore(restored.cursors.values())
        for uid, cursor in restored.cursors.items():
            self.outstanding += len(cursor.outstanding)
            lane = self.lanes.get(uid)
            if lane is None:
                continue
            for delivery in cursor.outstanding.values():
                payload = restored.payloads.get((uid, delivery.origin))
                if payload is None and delivery.stage is Stage.REPLY:
                    delivery.stage, delivery.attempt, delivery.due = Stage.SUBSCRIBER, 0, 0.0
                if payload is not None:
                    lane.payload_bytes += payload.size
                self.schedule.add(Job(lane, partition, cursor, delivery, None, payload), now)
        if self.snapshot.version > 0:
            for uid in [uid for uid in cursors.cursors if uid not in self.lanes]:
                self._forget(uid)
        alive = {(uid, origin) for uid, cursor in cursors.cursors.items() for origin in cursor.outstanding}
        self.unflushed[partition].orphaned(ident for ident in restored.payloads if ident not in alive)

    def take(self, batch: list[Matched]) -> None:
        """Takes records from the tail."""
        now = time.time()
        for record in batch:
            partition = self.partitions[record.partition]
            if partition.tail is not None and record.offset > partition.tail:
                self._report_lost(partition.skip_lost(record.offset, record.origin, self.snapshot.routes), partition)
            self._sender.routed(record, self.snapshot.targets)
            for start in partition.take(record, self.snapshot.routes, self._gone, self._room):
                self._start(start, now)
            self.unflushed[record.partition].tail_moved(bool(record.routes))
            for uid in record.routes:
                if uid not in self.lanes and uid not in self._gone:
                    self._unknown.setdefault(uid, now)
            self.recent[record.partition].follow(record, partition.detached)
            if partition.detached:
                self.may_catch_up.set()
        self.pump()

    async def catch_up(self) -> None:
        """Serves detached routes, partition by partition, chunk by chunk; never returns."""
        while True:
            self.may_catch_up.clear()
            idle = True
            for partition in self.partitions.values():
                begin = (
                    None if self._workers.draining else partition.next_chunk(self.snapshot.routes, self._may_catch_up)
                )
                if begin is None or partition.tail is None:
                    continue
                idle = False
                end = min(partition.tail, begin + self._settings.catch_up_records)
                chunk = await self._read_again(partition.partition, begin, end)
                if chunk.begin > begin:
                    begin = chunk.begin
                    if not chunk.records and begin < partition.tail:
                        end = min(partition.tail, begin + self._settings.catch_up_records)
                        chunk = await self._reread.chunk(partition.partition, begin, end)
                    origin = chunk.records[0].origin if chunk.records else partition.newest_origin + 1
                    self._report_lost(partition.skip_lost(begin, origin, self.snapshot.routes), partition)
                now = time.time()
                for start in partition.catch_up(
                    begin,
                    chunk.end,
                    chunk.records,
                    self.snapshot.routes,
                    room=self._room,
                    may_catch_up=self._may_catch_up,
                ):
                    self._start(start, now)
                self.pump()
            if idle:
                await self.may_catch_up.wait()

    async def _read_again(self, partition: int, begin: int, end: int) -> Chunk[Matched]:
        chunk = self.recent[partition].chunk(begin, end)
        if chunk is None:
            return await self._reread.chunk(partition, begin, end)
        await asyncio.sleep(0)  # what comes from memory must not keep everybody else waiting
        return chunk

    def _room(self, cursor: Cursor) -> bool:
        count = len(cursor.outstanding)
        if count >= self._settings.max_outstanding or self.lanes[cursor.route].payload_bytes > PAYLOAD_LIMIT_BYTES:
            return False
        return count < SHARE or self.outstanding < self._settings.max_outstanding_total

    def _may_catch_up(self, cursor: Cursor) -> bool:
        """Room for a chunk, not just for one: catching up in crumbs would read everything many times."""
        return self._room(cursor) and len(cursor.outstanding) * 2 <= self._settings.max_outstanding

    def _start(self, start: NewDelivery, now: float) -> None:
        lane = self.lanes[start.cursor.route]
        self.outstanding += 1
        self._telemetry.metrics(lane.route).matched.inc()
        record = self.memory.hold(start.record)
        self.schedule.add(Job(lane, start.record.partition, start.cursor, start.delivery, record), now)

    # --- running deliveries --------------------------------------------------------------------------------------

    async def _run(self, job: Job) -> None:
        route, delivery, record = job.lane.route, job.delivery, job.record
        try:
            if record is None:
                record = await self._reread.record(job.partition, delivery.matched)
            begun = time.time()
            if record is not None:
                if delivery.attempt == 0 and delivery.stage is Stage.SUBSCRIBER:
                    self._telemetry.metrics(route).processed.observe(max(0.0, begun - delivery.at / 1000))
                report = await self._sender.attempt(route, delivery.stage, record, job.payload)
        finally:
            self.schedule.landed(job)
        if record is None:
            self._lost(job)
            return
        if job.lane.gone:
            self._telemetry.write(job, record, report, begun, result="cancelled")
            self.memory.release(job.record)
            return
        if delivery.stage is Stage.SUBSCRIBER:
            self._note_reachability(job.lane, report)
        delivery.attempt += 1
        step = next_step(route, delivery.stage, delivery.attempt, report.verdict, time.time())
        self._telemetry.count(job, report, step)
        self._follow(job, record, report, step, begun)

    def _note_reachability(self, lane: Lane, report: AttemptResult) -> None:
        """A subscriber that nobody answers for must not take much from the others."""
        if report.unreached:
            self.schedule.unreached(lane, time.time())
        elif lane.unreachable:
            self.schedule.reached(lane)
            self.pump()

    def _follow(self, job: Job, record: Matched, report: AttemptResult, step: Step, begun: float) -> None:
        stage = job.delivery.stage
        match step:
            case Done():
                self._telemetry.write(job, record, report, begun, result="delivered")
                self._end(job)
            case Retry(at):
                self._telemetry.write(job, record, report, begun, result="retry", due=at)
                self._wait(job, stage, job.delivery.attempt, at)
            case Reply():
                self._telemetry.write(job, record, report, begun, result="replied")
                self._keep_payload(job, report.payload)
                self._wait(job, Stage.REPLY, 0, 0.0)
            case DeadLetter(reason):
                self._telemetry.write(job, record, report, begun, result="deadletter")
                self._keep_payload(job, StagePayload(failure=self._failure(job, report, reason)))
                self._wait(job, Stage.DEAD_LETTER, 0, 0.0)
            case Dropped(reason):
                self._telemetry.write(job, record, report, begun, result="dropped")
                self._telemetry.dropped(job, record, reason)
                self._end(job)

    def _failure(self, job: Job, report: AttemptResult, reason: str) -> Failure:
        subscriber = job.lane.route.subscriber
        return Failure(
            dest=report.url,
            code=report.code,
            data=report.data,
            subscriber=subscriber.url if subscriber is not None else report.url,
            reason=reason,
            attempts=job.delivery.attempt,
        )

    def _wait(self, job: Job, stage: Stage, attempt: int, due: float) -> None:
        now = time.time()
        delivery = job.delivery
        delivery.stage, delivery.attempt, delivery.due = stage, attempt, due
        job.cursor.touch()
        if job.record is not None and due - now > LONG_WAIT_SECONDS and self.memory.tight:
            self.memory.release(job.record)
            job.record = None
        self.schedule.retry(job, now)

    def _keep_payload(self, job: Job, payload: StagePayload | None) -> None:
        lane, changes = job.lane, self.unflushed[job.partition]
        if job.payload is not None:
            lane.payload_bytes -= job.payload.size
        job.payload = payload
        if payload is not None:
            lane.payload_bytes += payload.size
            changes.keep_payload(job.cursor.route, job.delivery.origin, stage_payloads.encode(payload))
        else:
            changes.drop_payload(job.cursor.route, job.delivery.origin)

    def _end(self, job: Job) -> None:
        """The delivery leaves `outstanding`, whichever way it went."""
        if job.payload is not None:
            self._keep_payload(job, None)
        job.cursor.finish(job.delivery.origin)
        self.outstanding -= 1
        self.memory.release(job.record)
        self.schedule.ended(job, time.time())
        if not job.cursor.attached:
            self.may_catch_up.set()

    def _lost(self, job: Job) -> None:
        """Retention has removed the event while it waited."""
        if job.lane.gone:
            return
        lost = Lost(job.cursor.route, job.delivery.origin, job.delivery.origin)
        self._report_lost([lost], self.partitions[job.partition])
        self._end(job)

    def _report_lost(self, losses: list[Lost], partition: PartitionCursors) -> None:
        self._telemetry.lost(losses, partition.partition, self.lanes)

    # --- from time to time ---------------------------------------------------------------------------------------

    def collect(self, final: bool = False) -> dict[int, list[Entry]]:
        """What has to be written down, by partition."""
        self._telemetry.collected()
        return {partition: changes.entries(final) for partition, changes in self.unflushed.items()}

    def each_second(self) -> None:
        """Once a second: gauges, routes that never became known, idle workers, and lanes that nobody woke."""
        now = time.time()
        for uid in [uid for uid, seen in self._unknown.items() if now - seen > UNKNOWN_SECONDS]:
            del self._unknown[uid]
            if uid not in self.lanes:
                self._forget(uid)
        self._telemetry.set_gauges(self.partitions.values(), self.lanes, now)
        for partition, cursors in self.partitions.items():
            if not cursors.detached:
                self.recent[partition].clear()
        self._workers.dismiss()
        self.may_catch_up.set()
        self.pump()
