"""One delivery from top to bottom: a record is received and scheduled, an attempt is made, and its outcome followed up.

All of it runs on one event loop; nothing here blocks. Reading, writing and sending are passed in, and so is the wall
clock, which only dates what is stored; waiting uses the loop's own time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Protocol

import structlog

from penstock.contract import event_log, records
from penstock.contract.attempts import FailureCause
from penstock.contract.routes import Route
from penstock.contract.snapshot import Snapshot
from penstock.dispatcher.cursors.cursor import NOT_MATCHED, Cursor, Stage
from penstock.dispatcher.cursors.cursor_store import Restored
from penstock.dispatcher.cursors.flusher import Unflushed
from penstock.dispatcher.cursors.partition import Edge, EdgeSearch, Logs, LostOrigins, NewDelivery, PartitionCursors
from penstock.dispatcher.cursors.stage_payload import Failure, StagePayload, encode_payload
from penstock.dispatcher.delivery.attempt import AttemptResult, AttemptSender
from penstock.dispatcher.delivery.backoff import longest_wait
from penstock.dispatcher.delivery.decision import Done, Dropped, Reply, Retry, Step, ToDeadLetter, next_step
from penstock.dispatcher.delivery.retention import Forecast
from penstock.dispatcher.delivery.telemetry import Telemetry
from penstock.dispatcher.event_memory import Memory, Recent
from penstock.dispatcher.http.outcome import Withheld
from penstock.dispatcher.lanes import Job, Lane, Schedule
from penstock.dispatcher.matched_record import Matched
from penstock.dispatcher.replay.feed import StoredEvents
from penstock.dispatcher.replay.selection import EventMatcher, as_replayed
from penstock.dispatcher.secrets import SecretCache
from penstock.dispatcher.workers import Workers
from penstock.history.schema.columns import HistoryProblem
from penstock.kafka.random_reader import Chunk, NotReadNow
from penstock.kafka.reports import Reporter
from penstock.kafka.topic_ends import KafkaAway
from penstock.kafka.transactions import Entry
from penstock.observability import metrics
from penstock.settings import Settings

log = structlog.get_logger()

PAYLOAD_LIMIT_BYTES = 16 * 1024 * 1024
"""Replies that a route may have waiting; beyond that it takes no more events."""
UNKNOWN_SECONDS = 60.0
"""How long records wait for a route that the snapshot does not know (yet)."""
SHARE = 16
"""Deliveries that every route may have even when the task as a whole has reached its limit."""
LONG_WAIT_SECONDS = 0.5
WITHHELD_SECONDS = 2.0
"""Before a delivery is retried that could not be attempted because something is missing on this side, or because a
partition of Kafka cannot be read."""
HISTORY_SECONDS = 10.0
"""Before events that may be in the history are read again, after the history could not be read."""
LOOK_AHEAD_RECORDS = 2000
"""Records read to see which generations write where the log begins: some overlap there for some seconds."""
MATCHES_AT_ONCE = 1000
"""How many matches of an event with a route are evaluated in one go, which takes some milliseconds."""
WAITED_SECONDS = 60.0
"""Events that have waited for so long may be removed by retention before they are delivered."""
RECENT_SHARE = 4
"""The part (a quarter) of the memory for events that is for routes which are a little behind."""


class MatchedReader(Protocol):
    """Random access to `penstock.matched`."""

    async def chunk(self, partition: int, begin: int, end: int) -> Chunk[Matched]:
        """The records from `begin` to `end`, exclusive; fewer where retention removed them or the log ends before."""

    async def record(self, partition: int, offset: int) -> Matched | None:
        """One record; None where there is none. Raises NotReadNow."""


class Dispatcher:
    """The deliveries of some partitions."""

    def __init__(
        self,
        settings: Settings,
        partitions: list[int],
        sender: AttemptSender,
        reporter: Reporter,
        *,
        matched: MatchedReader,
        events: StoredEvents,
        secrets: SecretCache,
        live_generation: Callable[[], Awaitable[int]],
        wall_clock: Callable[[], float] = time.time,
        failed: Callable[[BaseException], None],
    ) -> None:
        """Calls `failed` with an exception that must end the task. `live_generation` reads from which generation
        routing resumes, or raises KafkaAway."""
        self._settings, self._sender, self._reporter = settings, sender, reporter
        self._secrets, self._live_generation = secrets, live_generation
        secrets.changed = self._secret_changed
        self._matched, self._events, self._wall_clock = matched, events, wall_clock
        self._loop = asyncio.get_running_loop()
        self.partitions = {partition: PartitionCursors(partition) for partition in partitions}
        self.unflushed = {partition: Unflushed(cursors) for partition, cursors in self.partitions.items()}
        self.schedule = Schedule(settings.max_in_flight_total)
        recent = settings.delivery_memory_mib * 1024 * 1024 // RECENT_SHARE
        self.memory = Memory(settings.delivery_memory_mib * 1024 * 1024 - recent)
        self.recent = {partition: Recent(recent // len(partitions)) for partition in partitions}
        self.lanes: dict[str, Lane] = {}
        self.snapshot = Snapshot()
        self._may_catch_up = {partition: asyncio.Event() for partition in partitions}
        self._may_fill_gaps = {partition: asyncio.Event() for partition in partitions}
        """Set when a detached route may have capacity again."""
        self.outstanding = 0
        self.awaited: set[int] = set()
        """Partitions that are still to be restored."""
        self.unwritable: set[int] = set()
        """Partitions whose cursors or attempts could not be written for a while."""
        self.firsts: dict[int, int] = {}
        self.ends: dict[int, int] = {}
        """Where `penstock.matched` begins and ends, by partition, as Kafka last reported."""
        self.forecasts: dict[int, Forecast] = {}
        """By partition, which events retention will soon remove; none where no route waits."""
        self._replays: list[Route] = []
        self._gone: dict[str, None] = {}
        self._unknown: dict[str, float] = {}
        """Routes that are in records and in no snapshot, with the loop's time when they were first seen."""
        self._waiting: dict[str, dict[int, Restored]] = {}
        """By route and partition, what was restored for routes whose own record may be unreadable."""
        self._matchers = {partition: EventMatcher(partition) for partition in partitions}
        """By partition, the filters of the routes that read events."""
        self._unread_until: dict[int, float] = {}
        """Partitions whose events are not read again before this time of the loop: the history could not be read."""
        self._unfenced_until: dict[int, float] = {}
        """By partition, the time of the loop before which the fence in force is not searched again."""
        self._telemetry = Telemetry(self.unflushed, reporter)
        self._data_unread = metrics.DATA_UNREAD.bind()
        self._workers = Workers(self.schedule, self._attempt, self._telemetry.has_capacity, failed)
        self.pump = self._workers.pump
        """Starts whatever may start."""
        self.drain = self._workers.drain

    # --- routes --------------------------------------------------------------------------------------------------

    def apply(self, snapshot: Snapshot) -> None:
        """Acts by a snapshot from now on; deliveries under way see changes from their next attempt on.

        It is the newest, whatever its number: the order of the topic says so.
        """
        before, self.snapshot = self.snapshot, snapshot
        self._sender.names = snapshot.names
        for uid in [uid for uid in self.lanes if uid not in snapshot.routes]:
            self._remove(uid)
        for uid, route in snapshot.routes.items():
            if before.routes.get(uid) is not route:
                self._adopt(route)
        self._replays = [route for route in snapshot.routes.values() if route.replay is not None]
        for uid in [uid for uid in self._waiting if snapshot.has_ended(uid)]:
            self._forget(uid)
        self._reporter.ack(snapshot.version)
        self._wake_catch_up()
        self.pump()

    def _adopt(self, route: Route) -> None:
        self._gone.pop(route.uid, None)
        self._unknown.pop(route.uid, None)
        limit = route.max_in_flight or self._settings.max_in_flight
        self._secrets.follow(route)
        lacks_secret = self._secrets.lacking(route) is not None
        lane = self.lanes.get(route.uid)
        if lane is None:
            lane = self.lanes[route.uid] = Lane(route, limit)
            lane.lacks_secret = lacks_secret
            for partition, restored in self._waiting.pop(route.uid, {}).items():
                self._restore_deliveries(lane, partition, restored)
            if route.replay is None:
                for cursors in self.partitions.values():
                    cursors.adopt(route.uid)
            return
        lane.route, lane.limit, lane.lacks_secret = route, limit, lacks_secret
        self.schedule.reached(lane)  # perhaps: it may lead elsewhere now

    def _secret_changed(self, uid: str) -> None:
        """A Secret that the route needs is available now, or the reason why it is not has changed."""
        lane = self.lanes.get(uid)
        if lane is None:
            return
        reason = self._secrets.lacking(lane.route)
        if reason is None and not lane.lacks_secret:
            return  # a newer version, and nothing waited for it
        lane.lacks_secret = reason is not None
        if reason is None:
            self._telemetry.released(lane.route)
        elif reason:
            problem = Withheld(reason, FailureCause.SECRET_UNAVAILABLE)
            self._telemetry.withheld(lane.route, Stage.SUBSCRIBER, problem, self._wall_clock())
        self.schedule.refresh(lane)
        self.pump()

    def replays(self) -> list[Route]:
        """The current Replays."""
        return self._replays

    def _remove(self, uid: str) -> None:
        """Cancels what waits; a request in flight completes, and nothing follows it."""
        lane = self.lanes.pop(uid)
        self._secrets.forget(uid)
        for job in self.schedule.close(lane):
            self.memory.release(job.record)
        self._forget(uid)
        self._telemetry.forget(uid)

    def _forget(self, uid: str) -> None:
        self._waiting.pop(uid, None)
        self._gone[uid] = None
        while len(self._gone) > 10_000:
            self._gone.pop(next(iter(self._gone)))
        for partition, cursors in self.partitions.items():
            cursor = cursors.cursors.get(uid)
            if cursor is not None:
                self.outstanding -= len(cursor.outstanding)
                cursors.forget(uid)
                self.unflushed[partition].removed(cursor)
                if cursor.counts is not None:
                    self._reporter.forget_replay(uid, partition)

    # --- restore -------------------------------------------------------------------------------------------------

    def restore(self, partition: int, restored: Restored) -> None:
        """Resumes from the cursors; the snapshot must be in force."""
        self.awaited.discard(partition)
        cursors = self.partitions[partition]
        cursors.restore(restored.tail, restored.cursors.values())
        for uid, cursor in restored.cursors.items():
            self.outstanding += len(cursor.outstanding)
            lane = self.lanes.get(uid)
            if lane is not None:
                self._restore_deliveries(lane, partition, restored)
            elif self.snapshot.has_ended(uid):
                self._forget(uid)
            else:
                self._waiting.setdefault(uid, {})[partition] = restored
        if cursors.unfenced is not None:
            cursors.jump(cursors.unfenced, self._fed_by_matched())  # routes that have no cursor yet, too
        alive = {(uid, origin) for uid, cursor in cursors.cursors.items() for origin in cursor.outstanding}
        payloads = [ident for ident in restored.payloads if ident not in alive]
        self.unflushed[partition].orphaned(restored.orphans, payloads)

    def _restore_deliveries(self, lane: Lane, partition: int, restored: Restored) -> None:
        now, wall, cursor = self._loop.time(), self._wall_clock(), restored.cursors[lane.route.uid]
        for delivery in cursor.outstanding.values():
            payload = restored.payloads.get((cursor.route, delivery.origin))
            if payload is None and delivery.stage is not Stage.SUBSCRIBER:
                delivery.stage, delivery.attempt, delivery.due = Stage.SUBSCRIBER, 0, 0.0
                self.unflushed[partition].changed(cursor, delivery)
            if payload is not None:
                lane.payload_bytes += payload.size
            # If the wall clock was set back, what was due in a minute could be due in a year.
            seconds = min(delivery.due - wall, longest_wait(lane.route.delivery, max(delivery.attempt - 1, 0)))
            due = now + seconds if seconds > 0 else 0.0
            self.schedule.add(Job(lane, partition, cursor, delivery, None, payload, due), now)

    def check_logs(self, partition: int, logs: Logs, end: int) -> None:
        """Checks that the events are in the topic that the cursors were written for; their partition ends at `end`.

        If the matched events are in another topic, it is read from its beginning. Raises AnotherLog.
        """
        cursors = self.partitions[partition]
        if not cursors.check_logs(logs, end):
            self._start_over(cursors)

    async def check_event(self, partition: int, events: StoredEvents) -> None:
        """Checks that the newest event that was read is still at its offset. Raises AnotherLog.

        The end of the log and its id show nothing if it has lost its end and has grown again since.
        """
        if (known := self.partitions[partition].known) is not None:
            found = await events.record(partition, known.offset)
            if found is not None:
                event_log.check_known(partition, known, event_log.known(found.origin, found.fields.items()))

    async def check_tail(self, partition: int) -> None:
        """Checks that the log is the one that the cursors were written for, before anything is read from it.

        After a power loss `penstock.matched` may be shorter than it was, and the router has written, or will write,
        the missing events again, at other offsets. No position within the log means anything then, while origins still
        do: everything is read again from the beginning, and the cursors drop what they have taken before.
        """
        cursors = self.partitions[partition]
        if not cursors.tail:
            return
        chunk = await self._matched.chunk(partition, cursors.tail - 1, cursors.tail)
        if chunk.begin >= cursors.tail:
            return  # retention has removed the record; the next one shows what was lost with it
        if not chunk.records or not cursors.was_last(chunk.records[0]):
            self._start_over(cursors)

    def _start_over(self, cursors: PartitionCursors) -> None:
        log.warning(
            "penstock.matched is not the log that the cursors were written for; reading it from its beginning",
            partition=cursors.partition,
            tail=cursors.tail,
            effect="what was delivered is not delivered again; nothing is lost, and no action is needed",
        )
        cursors.start_over()
        self.recent[cursors.partition].clear()

    # --- receive -------------------------------------------------------------------------------------------------

    def take(self, batch: list[Matched]) -> None:
        """Takes records from the tail."""
        for found in batch:
            cursors = self.partitions[found.partition]
            if found.offset != cursors.tail:
                self._skip_removed(cursors, found)
            out = cursors.fences.shut_out(found)
            record = self._telemetry.shut_out(found, cursors.fences.in_force) if out else found
            self._sender.routed(record, self.snapshot.targets)
            if records.DATA_UNREAD in record.fields:
                self._data_unread.inc()
            for new in cursors.take(record, self.snapshot.routes, self._gone, self.has_capacity):
                self.begin(new)
            self.unflushed[record.partition].tail_moved(bool(record.routes))
            for uid in record.routes:
                if uid not in self.lanes and uid not in self._gone:
                    self._unknown.setdefault(uid, self._loop.time())
            self.recent[record.partition].follow(record, cursors.detached)
            if cursors.detached:
                self._may_catch_up[record.partition].set()
                self._may_fill_gaps[record.partition].set()
        self.pump()

    def _skip_removed(self, cursors: PartitionCursors, record: Matched) -> None:
        """The tail does not continue where it was: retention has removed records, or the log has lost its end."""
        if cursors.tail is not None and record.offset < cursors.tail:
            self._start_over(cursors)
        if not cursors.lacks(record):
            return
        log.warning(
            "matched events were removed by retention before they were read; reading the events themselves",
            partition=cursors.partition,
            first=cursors.tail or 0,
            last=record.offset - 1,
        )
        cursors.jump(record.offset, self._fed_by_matched())

    def _fed_by_matched(self) -> list[str]:
        """All routes that records may be for, including those that have had none yet."""
        routes = [uid for uid, route in self.snapshot.routes.items() if route.replay is None]
        return [*routes, *self.snapshot.unreadable]

    async def catch_up(self) -> None:
        """Serves detached routes, in each partition on its own. Those that read events do not wait for those that read
        matched events, nor the other way round. Never returns."""
        loops = ((self._serve_chunk, self._may_catch_up), (self._serve_gap, self._may_fill_gaps))
        partitions = self.partitions.values()
        await asyncio.gather(*(self._serve_detached(one, serve, may) for serve, may in loops for one in partitions))

    async def _serve_detached(
        self,
        cursors: PartitionCursors,
        serve: Callable[[PartitionCursors], Awaitable[bool]],
        may_serve: Mapping[int, asyncio.Event],
    ) -> None:
        """Serves a partition chunk by chunk. Never returns."""
        may = may_serve[cursors.partition]
        while True:
            may.clear()
            if self._workers.draining or not await serve(cursors):
                await may.wait()

    def _wake_catch_up(self) -> None:
        """Detached routes may have capacity again, in any partition, or another reason to continue."""
        for event in (*self._may_catch_up.values(), *self._may_fill_gaps.values()):
            event.set()

    async def _serve_chunk(self, cursors: PartitionCursors) -> bool:
        """Reads one chunk for the detached route whose turn it is; false if no route can take more."""
        begin = cursors.next_chunk(self.snapshot.routes, self._has_capacity_for_chunk)
        if begin is None or cursors.tail is None:
            return False
        chunk = await self._read_again(cursors, begin)
        if chunk.begin > begin:
            cursors.removed_before(chunk.begin)
            self._may_fill_gaps[cursors.partition].set()
            return True
        for new in cursors.catch_up(
            begin,
            chunk.end,
            chunk.records,
            self.snapshot.routes,
            has_capacity=self.has_capacity,
            has_capacity_for_chunk=self._has_capacity_for_chunk,
        ):
            self.begin(new)
        self.pump()
        return True

    async def _serve_gap(self, cursors: PartitionCursors) -> bool:
        """Reads one chunk of events for the next route whose matched events were removed."""
        partition, routes = cursors.partition, self.snapshot.routes
        if self._loop.time() < self._unread_until.get(partition, 0.0):
            return False
        turn = cursors.next_gap(routes, self._has_capacity_for_chunk)
        if turn is None:
            if not cursors.in_gap():
                self._matchers[partition].serve({})
            self._may_catch_up[cursors.partition].set()  # some may have reached where matched events exist again
            return False
        if cursors.unfenced is not None:
            await self._find_fence(cursors)
        begin, bound = turn
        end, jumps = begin + self._settings.catch_up_records, cursors.jumps
        try:
            chunk = await self._events.chunk(partition, begin, end if bound is None else min(end, bound))
        except HistoryProblem as problem:
            self._hold_gaps(cursors, problem)
            return False
        if self._unread_until.pop(partition, None) is not None:
            self._release_gaps(cursors)
        if chunk.log_end is not None and jumps == cursors.jumps:
            cursors.events_ended(chunk.log_end)
        at_end = chunk.log_end is not None and not chunk.records
        if cursors.unfenced is not None and (chunk.begin > begin or at_end):
            return False  # until the fence in force is known, it is unknown what is lost, and the tail moves no route
        if chunk.begin > begin:
            edge = await self._edge(cursors)
            if edge is not None and edge.whole_from < chunk.begin:
                self._report_lost(cursors.continue_at_edge(begin, chunk.begin, edge, self.snapshot.routes), cursors)
                self._may_catch_up[cursors.partition].set()
                return True
            self._report_lost(cursors.lose(begin, chunk.begin, self.snapshot.routes), cursors)
        await self._fill(cursors, max(begin, chunk.begin), chunk)
        return True

    async def _find_fence(self, cursors: PartitionCursors) -> None:
        """Finds the fence in force behind records that the tail has missed, as soon as it has read what follows them.

        If Kafka is unreachable it remains unknown for now.
        """
        if self._loop.time() < self._unfenced_until.get(cursors.partition, 0.0):
            return
        self._unfenced_until[cursors.partition] = self._loop.time() + WITHHELD_SECONDS
        jumps, at = cursors.jumps, max(cursors.tail or 0, cursors.retained)
        if (await self._matched.chunk(cursors.partition, at, at + self._settings.catch_up_records)).log_end is None:
            return
        try:
            generation = await self._live_generation()
        except KafkaAway as error:
            log.warning("the live generation cannot be read", partition=cursors.partition, error=str(error))
            return
        if jumps == cursors.jumps:
            cursors.found_fence(generation)

    async def _edge(self, cursors: PartitionCursors) -> Edge | None:
        """Where `penstock.matched` begins, of which retention has removed something; None where too little is left to
        see every generation that writes."""
        begin, step, seen = cursors.retained, self._settings.catch_up_records, 0
        search = EdgeSearch(cursors.fences.newest, cursors.first_bound)
        while seen < LOOK_AHEAD_RECORDS:
            chunk = await self._matched.chunk(cursors.partition, begin, begin + step)
            if chunk.begin > begin and seen:
                return await self._edge(cursors)  # retention has removed more meanwhile
            for record in chunk.records:
                search.add(record)
            seen += len(chunk.records)
            if chunk.log_end is not None:
                return None
            begin = max(chunk.begin, begin + step)
        return search.found

    async def _fill(self, cursors: PartitionCursors, begin: int, chunk: Chunk[Matched]) -> None:
        """Takes a few events at a time: other work runs in between, and what it changes counts for the rest."""
        events, end = chunk.records, chunk.end if chunk.log_end is None else min(chunk.end, chunk.log_end)
        matcher, routes = self._matchers[cursors.partition], self.snapshot.routes
        matcher.serve({uid: routes[uid] for uid in cursors.in_gap() if uid in routes})
        step = max(1, MATCHES_AT_ONCE // (1 + matcher.unindexed))
        for number in range(0, len(events) or 1, step):
            following = number + step
            until = events[following].origin if following < len(events) else end
            for new in cursors.fill(
                begin,
                until,
                events[number:following],
                self.snapshot.routes,
                matcher=matcher,
                has_capacity=self.has_capacity,
                has_capacity_for_chunk=self._has_capacity_for_chunk,
            ):
                self.begin(new)
            begin = until
            self.pump()
            await asyncio.sleep(0)
        self._may_catch_up[cursors.partition].set()

    def _hold_gaps(self, cursors: PartitionCursors, problem: HistoryProblem) -> None:
        """Whether events are lost is unknown until the history can be read: nothing is skipped."""
        self._unread_until[cursors.partition] = self._loop.time() + HISTORY_SECONDS
        for uid in cursors.in_gap():
            if (lane := self.lanes.get(uid)) is not None:
                self._telemetry.withheld(lane.route, Stage.SUBSCRIBER, unread_history(problem), self._wall_clock())

    def _release_gaps(self, cursors: PartitionCursors) -> None:
        for uid in cursors.in_gap():
            if (lane := self.lanes.get(uid)) is not None:
                self._telemetry.released(lane.route)

    async def _read_again(self, cursors: PartitionCursors, begin: int) -> Chunk[Matched]:
        end = self._chunk_end(cursors.tail or 0, begin)
        chunk = self.recent[cursors.partition].chunk(begin, end)
        if chunk is None:
            return await self._matched.chunk(cursors.partition, begin, end)
        await asyncio.sleep(0)  # reading from memory never waits, so other work has to get its turn here
        return chunk

    def _chunk_end(self, tail: int, begin: int) -> int:
        return min(tail, begin + self._settings.catch_up_records)

    def has_capacity(self, cursor: Cursor) -> bool:
        """Whether a route can take one more delivery."""
        count = len(cursor.outstanding)
        if count >= self._settings.max_outstanding or self.lanes[cursor.route].payload_bytes > PAYLOAD_LIMIT_BYTES:
            return False
        return count < SHARE or self.outstanding < self._settings.max_outstanding_total

    def _has_capacity_for_chunk(self, cursor: Cursor) -> bool:
        """Whether it can take many more, not just one: catching up in small steps would read everything many times."""
        return self.has_capacity(cursor) and len(cursor.outstanding) * 2 <= self._settings.max_outstanding

    # --- schedule ------------------------------------------------------------------------------------------------

    def begin(self, new: NewDelivery) -> None:
        """Schedules a delivery that a cursor has taken."""
        lane = self.lanes[new.cursor.route]
        self.outstanding += 1
        self._telemetry.metrics(lane.route).matched.inc()
        record = self.memory.hold(new.record)
        self.schedule.add(Job(lane, new.record.partition, new.cursor, new.delivery, record), self._loop.time())

    # --- attempt -------------------------------------------------------------------------------------------------

    async def _attempt(self, job: Job) -> None:
        """Makes one attempt and follows up. A worker calls this when it is the job's turn."""
        lane, delivery, record, result, due = job.lane, job.delivery, job.record, None, 0.0
        if job.partition in self.unwritable and not self._telemetry.has_share(job.partition):
            self.schedule.landed(job)
            self._put_back(job, self._loop.time() + WITHHELD_SECONDS)
            return
        try:
            record = record or await self._read_event(job)
            begun = self._wall_clock()
            # While it was read the route may have changed, and with it the Secrets that it needs.
            if record is not None and not lane.lacks_secret:
                route = lane.route
                if delivery.attempt == 0 and delivery.stage is Stage.SUBSCRIBER:
                    self._telemetry.metrics(route).processed.observe(max(0.0, begun - delivery.at / 1000))
                result = await self._sender.attempt(route, delivery.stage, record, job.payload)
        except NotReadNow:
            due = self._loop.time() + WITHHELD_SECONDS
        except Withheld as problem:
            due = self._hold(job, problem)
        except HistoryProblem as problem:
            record, due = None, self._loop.time() + HISTORY_SECONDS
            self._telemetry.withheld(lane.route, delivery.stage, unread_history(problem), self._wall_clock())
        finally:
            self.schedule.landed(job)
        if record is None and not due:
            self._drop_lost(job)
        elif record is None or result is None:
            self._put_back(job, due)
        elif lane.gone:
            self._telemetry.write(job, record, result, begun, result="cancelled")
            self.memory.release(job.record)
        else:
            self._follow_up(job, record, result, self._decide(job, result), begun)

    def _hold(self, job: Job, problem: Withheld) -> float:
        """Makes the delivery wait without counting an attempt; returns when to try again.

        While that lasts the route makes only a few attempts at a time, like one whose subscriber is unreachable.
        """
        now = self._loop.time()
        if not job.lane.gone:
            if job.delivery.stage is Stage.SUBSCRIBER:
                self.schedule.unreached(job.lane, now)
            self._telemetry.withheld(job.lane.route, job.delivery.stage, problem, self._wall_clock())
        return now + WITHHELD_SECONDS

    def _put_back(self, job: Job, due: float) -> None:
        """Schedules the job again, not before it is due; no attempt was made."""
        if job.lane.gone:
            self.memory.release(job.record)
        else:
            now = self._loop.time()
            self._release_memory(job, due - now)
            job.due = due
            self.schedule.retry(job, now)

    async def _read_event(self, job: Job) -> Matched | None:
        """The event of a delivery that has released it, or was restored; None if it is no longer retained.

        If the log has lost its end since, another event, or none, may be at the offset where it was matched: the origin
        shows that. The event itself is still where it was accepted, on disk since before that was acknowledged.
        """
        if job.lane.route.replay is not None:
            found = await self._events.record(job.partition, job.delivery.origin)
            return None if found is None else as_replayed(found, job.lane.route)
        record = None
        if job.delivery.matched != NOT_MATCHED:
            record = await self._matched.record(job.partition, job.delivery.matched)
        if record is None or record.origin != job.delivery.origin:
            record = await self._events.record(job.partition, job.delivery.origin)
        return record

    # --- decide --------------------------------------------------------------------------------------------------

    def _decide(self, job: Job, result: AttemptResult) -> Step:
        lane, delivery = job.lane, job.delivery
        if delivery.stage is Stage.SUBSCRIBER:
            self._note_reachability(lane, result)
        delivery.attempt += 1
        wall = self._wall_clock()
        step = next_step(lane.route, delivery.stage, delivery.attempt, result.verdict, wall)
        self._telemetry.count(job, result, step, self._loop.time(), wall)
        return step

    def _note_reachability(self, lane: Lane, result: AttemptResult) -> None:
        """An unreachable subscriber must not take much from the others."""
        if result.unreached:
            self.schedule.unreached(lane, self._loop.time())
        elif lane.unreachable:
            self.schedule.reached(lane)
            self.pump()

    # --- follow up -----------------------------------------------------------------------------------------------

    def _follow_up(self, job: Job, record: Matched, result: AttemptResult, step: Step, begun: float) -> None:
        stage = job.delivery.stage
        match step:
            case Done():
                self._telemetry.write(job, record, result, begun, result="delivered")
                self._end(job, failed=stage is Stage.DEAD_LETTER)
            case Retry(at):
                self._telemetry.write(job, record, result, begun, result="retry", due=at)
                self._wait(job, stage, job.delivery.attempt, at)
            case Reply():
                self._telemetry.write(job, record, result, begun, result="replied")
                self._keep_payload(job, result.payload)
                self._wait(job, Stage.REPLY, 0, 0.0)
            case ToDeadLetter(reason):
                self._telemetry.write(job, record, result, begun, result="deadletter")
                self._keep_payload(job, StagePayload(failure=self._failure(job, result, reason)))
                self._wait(job, Stage.DEAD_LETTER, 0, 0.0)
            case Dropped(reason):
                self._telemetry.write(job, record, result, begun, result="dropped")
                self._telemetry.dropped(job, record, reason)
                self._end(job, failed=True)

    def _failure(self, job: Job, result: AttemptResult, reason: str) -> Failure:
        subscriber = job.lane.route.subscriber
        return Failure(
            dest=result.url,
            code=result.code,
            data=result.data,
            subscriber=subscriber.shown if subscriber is not None else result.url,
            reason=reason,
            attempts=job.delivery.attempt,
        )

    def _wait(self, job: Job, stage: Stage, attempt: int, due: float) -> None:
        """Continues in this stage, not before `due` by the wall clock, which a successor of this task uses too."""
        now, seconds = self._loop.time(), max(0.0, due - self._wall_clock()) if due else 0.0
        delivery = job.delivery
        delivery.stage, delivery.attempt, delivery.due = stage, attempt, due
        job.due = now + seconds if seconds else 0.0
        self.unflushed[job.partition].changed(job.cursor, delivery)
        self._release_memory(job, seconds)
        self.schedule.retry(job, now)

    def _release_memory(self, job: Job, seconds: float) -> None:
        """Releases the event of a delivery that waits for long, if memory is short; it is read again later."""
        if job.record is not None and seconds > LONG_WAIT_SECONDS and self.memory.tight:
            self.memory.release(job.record)
            job.record = None

    def _keep_payload(self, job: Job, payload: StagePayload | None) -> None:
        lane, unflushed = job.lane, self.unflushed[job.partition]
        if job.payload is not None:
            lane.payload_bytes -= job.payload.size
        job.payload = payload
        if payload is not None:
            lane.payload_bytes += payload.size
            unflushed.keep_payload(job.cursor.route, job.delivery.origin, encode_payload(payload))
        else:
            unflushed.drop_payload(job.cursor.route, job.delivery.origin)

    def _end(self, job: Job, *, failed: bool = False) -> None:
        """The delivery has ended, whatever its outcome: it leaves `outstanding`."""
        if failed and job.cursor.counts is not None:
            job.cursor.counts.failed += 1
            job.cursor.touch()
        if job.payload is not None:
            self._keep_payload(job, None)
        self.unflushed[job.partition].finished(job.cursor, job.delivery.origin)
        self.outstanding -= 1
        self.memory.release(job.record)
        self.schedule.ended(job, self._loop.time())
        if not job.cursor.attached:
            self._wake_catch_up()

    def _drop_lost(self, job: Job) -> None:
        """Drops a delivery whose event was removed by retention while it waited."""
        if job.lane.gone:
            return
        lost = LostOrigins(job.cursor.route, job.delivery.origin, job.delivery.origin)
        self._report_lost([lost], self.partitions[job.partition])
        self._end(job, failed=True)

    def _report_lost(self, losses: list[LostOrigins], cursors: PartitionCursors) -> None:
        self._telemetry.lost(losses, cursors.partition, self.lanes)

    def longest_waiting(self) -> dict[int, int]:
        """By partition, the oldest event that has waited for longer than a delivery usually takes."""
        before, found = (self._wall_clock() - WAITED_SECONDS) * 1000, dict[int, int]()
        for partition, cursors in self.partitions.items():
            if partition in self.awaited:
                continue
            waiting = [
                cursor.waiting or (0, 0)
                for cursor in cursors.cursors.values()
                if cursor.counts is None and (cursor.outstanding or not cursor.attached)
            ]
            if waited := [origin for origin, at in waiting if at < before]:
                found[partition] = min(waited)
        return found

    # --- periodic work -------------------------------------------------------------------------------------------

    def collect(self, final: bool = False, only: Iterable[int] | None = None) -> dict[int, list[Entry]]:
        """What has to be written, by partition; only of those given, if any are."""
        now, found = self._loop.time(), {}
        for partition in self.unflushed if only is None else only:
            self._telemetry.collected(partition)
            found[partition] = self.unflushed[partition].entries(now, final)
        return found

    def each_second(self) -> None:
        """To be called once a second: gauges, unknown routes, idle workers, and lanes that were not woken."""
        now = self._loop.time()
        for uid in [uid for uid, seen in self._unknown.items() if now - seen > UNKNOWN_SECONDS]:
            if self.snapshot.has_ended(uid):
                del self._unknown[uid]
                self._forget(uid)
        restored = [cursors for partition, cursors in self.partitions.items() if partition not in self.awaited]
        self._telemetry.set_gauges(restored, self.ends, self.lanes, self._wall_clock(), self.forecasts)
        for partition, cursors in self.partitions.items():
            cursors.touch_miscounted()
            if (first := self.firsts.get(partition, 0)) == self.ends.get(partition):
                cursors.emptied(first, self._fed_by_matched())
            if not cursors.detached:
                self.recent[partition].clear()
        self._workers.dismiss()
        self._wake_catch_up()
        self.pump()


def unread_history(problem: HistoryProblem) -> Withheld:
    """Why a route waits whose events may be in the history that cannot be read."""
    reason = f"the history cannot be read; its oldest events may be there: {problem.what} {problem.remedy}".rstrip()
    return Withheld(reason, FailureCause.HISTORY_UNAVAILABLE)
