"""The asyncio tasks that make attempts: reused while there is work, woken by a timer when a delivery is due."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from penstock.dispatcher.lanes import Job, Schedule

log = structlog.get_logger()

AFTER_DEFECT_SECONDS = 1.0


class Workers:
    """Runs the jobs of a schedule, as many at once as it allows, on the event loop."""

    def __init__(
        self,
        schedule: Schedule,
        run: Callable[[Job], Awaitable[None]],
        may_start: Callable[[], bool],
        failed: Callable[[BaseException], None],
    ) -> None:
        """Calls `failed` with an exception that keeps jobs from being started: the owner of the schedule must end."""
        self._schedule, self._run, self._may_start, self._failed = schedule, run, may_start, failed
        self.draining = False
        self._workers: set[asyncio.Task[None]] = set()
        self._parked: list[asyncio.Future[Job | None]] = []
        """Workers that wait for a job; the last one to wait is the first to get one."""
        self._timer: asyncio.Handle | None = None
        """Not a TimerHandle: uvloop returns a plain Handle for a call that is due at once."""
        self._timer_at = 0.0
        self._loop = asyncio.get_running_loop()

    def pump(self) -> None:
        """Starts whatever may start."""
        while (job := self._next()) is not None:
            if self._parked:
                self._parked.pop().set_result(job)
            else:
                self._workers.add(self._loop.create_task(self._work(job)))
        self._set_timer()

    def _next(self) -> Job | None:
        if self.draining or not self._may_start():
            return None
        return self._schedule.pop()

    def _set_timer(self) -> None:
        due = self._schedule.next_due
        if due is None or self.draining:
            return
        when = max(due, self._loop.time())
        if self._timer is not None:
            if self._timer_at <= when:
                return
            self._timer.cancel()
        self._timer, self._timer_at = self._loop.call_at(when, self._run_due), when

    def _run_due(self) -> None:
        self._timer = None
        try:
            # uvloop counts milliseconds: a timer may fire that much before its time.
            self._schedule.due(max(self._loop.time(), self._timer_at))
            self.pump()
        except Exception as error:
            log.exception("what is due cannot be started")
            self._failed(error)

    async def _work(self, first: Job) -> None:
        """Runs one job after another, and waits for more: waking a task costs less than creating one."""
        worker = asyncio.current_task()
        job: Job | None = first
        try:
            while job is not None:
                try:
                    await self._run(job)
                except Exception:
                    # A defect of ours must not lose the delivery: it stays outstanding and is retried.
                    log.exception(
                        "an attempt failed unexpectedly", route=job.lane.route.uid, origin=job.delivery.origin
                    )
                    now = self._loop.time()
                    job.due = now + AFTER_DEFECT_SECONDS
                    self._schedule.retry(job, now)
                job = self._next()
                if job is None and not self.draining:
                    self._set_timer()
                    parked: asyncio.Future[Job | None] = self._loop.create_future()
                    self._parked.append(parked)
                    job = await parked
        except Exception as error:
            log.exception("a worker ended by an exception")
            self._failed(error)
        finally:
            if worker is not None:
                self._workers.discard(worker)

    def dismiss(self) -> None:
        """Ends workers that wait for a job."""
        while self._parked:
            self._parked.pop().set_result(None)

    async def drain(self, seconds: float) -> None:
        """Starts nothing more and waits for attempts in flight; those that do not end in time will be repeated."""
        self.draining = True
        self.dismiss()
        if self._timer is not None:
            self._timer.cancel()
        if self._workers:
            await asyncio.wait(self._workers, timeout=seconds)
        workers = list(self._workers)
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
