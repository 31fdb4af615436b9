"""One run: a stack, its routes, load, faults, and after them the check."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException

from benchmarks import objects
from chaos import checker, plan, routes, trail
from chaos.books import Books
from chaos.changes import Changes
from chaos.checker import Findings, Lost
from chaos.faults import NotFound, strike
from chaos.load import Load
from chaos.plan import Fault
from chaos.receiver import Receiver
from chaos.recovery import Recovery, clock
from chaos.stack import NotStarted, Stack

RECOVERY_SECONDS = 300.0
"""A stack that delivers nothing new for this long has not recovered."""
STALLED_SECONDS = 90.0
"""Draining is given up when nothing has arrived for this long."""
AFTER_SECONDS = 3.0
"""What must not arrive may still do so after everything else."""
WARM_UP_SECONDS = 3.0
ABSENCE_SECONDS = (5.0, 20.0)
PRESENCE_SECONDS = (3.0, 10.0)
TRAILS = 20
"""Lost events whose trail is followed."""


@dataclass(frozen=True)
class Outcome:
    """A fault and what came of it."""

    fault: Fault
    at: float
    """Seconds since the load began."""
    recovery: float | None
    """Seconds to the first delivery of an event accepted after it; None where the next fault was not to wait for it."""
    silence: float | None
    """The longest time without any delivery until then, in seconds."""
    note: str = ""


@dataclass
class Result:
    """What a run has shown."""

    seed: int
    rate: float
    faults: int
    seconds: float = 0.0
    outcomes: list[Outcome] = field(default_factory=list)
    findings: Findings = field(default_factory=Findings)
    accepted: int = 0
    resent: int = 0
    deliveries: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    changes: list[float] = field(default_factory=list)
    """Seconds from each route change to Ready."""
    gave_up: int = 0
    """How often the supervisor gave up a component that was hit too often, and was started again."""
    problems: list[str] = field(default_factory=list)
    """What keeps the run from counting, beside what the books show."""
    trails: dict[str, list[str]] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Whether every promise was kept."""
        return not self.findings.broken and not self.problems and len(self.outcomes) == self.faults


class Run:
    """Everything that runs beside the stack, in one event loop."""

    def __init__(
        self,
        seed: int,
        faults: int,
        rate: float,
        folder: Path,
        say: Callable[[str], None],
        *,
        most_seconds: float = math.inf,
    ) -> None:
        self.result = Result(seed, rate, faults)
        self._most_seconds = most_seconds
        self.stack = Stack(folder)
        self._say = say
        self._books = Books()
        self._recovery = Recovery(self._books.sent, routes.HEALTHY)
        self._receiver = Receiver(self._books, random.Random(f"{seed} receiver"), self._recovery.delivered)
        self._load = Load(self._books.sent, rate, lambda: self.stack.ingress_url, self._recovery.accepted)
        self._expected = routes.expectations()
        urls = routes.Urls(self._receiver.port, {routes.COMES_AND_GOES: self._receiver.other_port})
        chance = random.Random(f"{seed} changes")
        self._changes = Changes(self.stack, self._books, self._expected, urls, chance)
        self._chance = random.Random(f"{seed} receivers")
        self._supervisor_is_hit = False
        self._began = 0.0

    async def run(self) -> Result:
        """From start to verdict. The stack still runs then."""
        await self._receiver.start()
        await self.stack.start()
        await self.stack.ready()
        await asyncio.to_thread(self._prepare)
        self._began = clock()
        async with asyncio.TaskGroup() as tasks:  # whatever fails beside the faults ends the run
            self._load.start(tasks)
            changes = tasks.create_task(self._changes.run())
            minders = [tasks.create_task(self._restart_supervisor()), tasks.create_task(self._come_and_go())]
            minders.append(tasks.create_task(_fail_with_callbacks()))
            await asyncio.sleep(WARM_UP_SECONDS)
            await self._all_faults()
            await self._drain(changes)
            await asyncio.sleep(AFTER_SECONDS)
            for task in minders:
                task.cancel()
        self._close_books()
        return self.result

    async def close(self) -> None:
        """Ends the stack and the subscribers."""
        await self.stack.stop()
        self._receiver.close()

    def _prepare(self) -> None:
        api = objects.Api(self.stack.kubeconfig)
        api.create([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": routes.NAMESPACE}}])
        made = [routes.BROKER, routes.CHANNEL_OBJECT, *self._changes.initial()]
        api.create(made, routes.NAMESPACE)
        for plural in ("brokers", "channels", "triggers", "subscriptions"):
            names = {obj["metadata"]["name"] for obj in made if f"{obj['kind'].lower()}s" == plural}
            api.await_ready(plural, names, limit=120, namespace=routes.NAMESPACE)

    # --- faults --------------------------------------------------------------------------------------------------

    async def _all_faults(self) -> None:
        faults = plan.sequence(self.result.seed, self.result.faults)
        for fault, following in zip(faults, [*faults[1:], None], strict=True):
            if clock() - self._began > self._most_seconds and not fault.hurried:
                self.result.faults = len(self.result.outcomes)
                self._say(f"the time is up after {self.result.faults} faults")
                return
            await asyncio.sleep(fault.pause)
            try:
                outcome = await self._one_fault(fault, overtaken=following is not None and following.hurried)
            except (NotFound, NotStarted) as problem:
                self._problem(f"fault {fault.number}: {problem}")
                return
            self.result.outcomes.append(outcome)
            self._say(self._line(outcome))
            if outcome.recovery is None and not (following is not None and following.hurried):
                self._problem(f"fault {fault.number}: nothing new was delivered within {RECOVERY_SECONDS:g} s")
                return

    async def _one_fault(self, fault: Fault, *, overtaken: bool) -> Outcome:
        at = clock() - self._began
        self._supervisor_is_hit = fault.victim == plan.SUPERVISOR
        self._recovery.begin(clock())
        blow = await strike(fault, self.stack)
        self._supervisor_is_hit = False
        note = "" if blow.obeyed else "did not end by SIGTERM"
        if overtaken:
            return Outcome(fault, at, None, None, note)
        self._recovery.watch(blow.over)
        recovered = await self._recovery.wait(RECOVERY_SECONDS)
        if recovered is None:
            return Outcome(fault, at, None, None, note)
        return Outcome(fault, at, recovered - blow.struck, self._recovery.silence, note)

    async def _restart_supervisor(self) -> None:
        """A supervisor that gives a component up ends the stack; a service manager would start it again."""
        while True:
            await asyncio.sleep(0.2)
            if not self.stack.runs and not self._supervisor_is_hit:
                self.result.gave_up += 1
                last = self.stack.printed().decode().strip().splitlines()[-2:]
                self._say(f"  the supervisor ended by itself and is started again: {' / '.join(last)}")
                await self.stack.start()

    async def _come_and_go(self) -> None:
        while True:
            await asyncio.sleep(self._chance.uniform(*PRESENCE_SECONDS))
            self._receiver.go()
            try:
                await asyncio.sleep(self._chance.uniform(*ABSENCE_SECONDS))
            finally:
                await self._receiver.come()

    # --- the end -------------------------------------------------------------------------------------------------

    async def _drain(self, changes: asyncio.Task[None]) -> None:
        """No more events and changes; waits until everything has arrived, or nothing arrives any more."""
        self._changes.stop()
        await self._limited(self._load.stop(), "events were not accepted any more")
        await self._limited(changes, "a route change did not become Ready any more")
        self.result.seconds = clock() - self._began
        await self._receiver.come()
        missing = self._missing()
        self._say(f"  {self._books.sent.count:,} events accepted, {len(missing):,} deliveries still to come")
        arrived, since = self._books.deliveries, clock()
        while missing and clock() < since + STALLED_SECONDS:
            await asyncio.sleep(0.5)
            missing = [one for one in missing if not self._books.at(one.subscriber).taken(one.id)]
            if self._books.deliveries != arrived:
                arrived, since = self._books.deliveries, clock()

    async def _limited(self, work: Awaitable[None], what: str) -> None:
        try:
            await asyncio.wait_for(work, RECOVERY_SECONDS)
        except TimeoutError:
            self._problem(f"{what}, {RECOVERY_SECONDS:g} s after the last fault")

    def _missing(self) -> list[Lost]:
        return [one for expected in self._expected for one in checker.lost(self._books, expected)]

    def _close_books(self) -> None:
        result, sent = self.result, self._books.sent
        result.findings = checker.check(self._books, self._expected)
        result.accepted, result.resent, result.deliveries = sent.count, sent.resent, self._books.deliveries
        result.refused, result.changes = dict(sent.refused), list(self._changes.ready_seconds)
        if result.findings.lost:
            bootstrap = f"127.0.0.1:{self.stack.settings['kafka_port']}"
            try:
                result.trails = trail.trails(bootstrap, result.findings.lost[:TRAILS])
            except KafkaException as error:  # where Kafka is away, the rest of the report counts all the same
                self._problem(f"the topics could not be read: {error!r}")

    # -------------------------------------------------------------------------------------------------------------

    def _problem(self, text: str) -> None:
        self.result.problems.append(text)
        self._say(f"  {text}")

    def _line(self, outcome: Outcome) -> str:
        fault = outcome.fault
        way = f"{fault.way} for {fault.frozen:.1f} s" if fault.frozen else str(fault.way)
        took = "no recovery seen" if outcome.recovery is None else f"{outcome.recovery:6.2f} s"
        hurried = " (during recovery)" if fault.hurried else ""
        counts = f"{self._books.sent.count:,} accepted, {self._books.deliveries:,} delivered"
        return (
            f"[{fault.number:>3}/{self.result.faults}] {outcome.at:6.0f} s  {fault.victim:<17} {way:<18} {took}"
            f"{hurried}  {outcome.note}  {counts}"
        )


async def _fail_with_callbacks() -> None:
    """Ends with the first exception of a callback of the loop, such as a subscriber's, which nothing else would see."""
    loop = asyncio.get_running_loop()
    failed: asyncio.Future[None] = loop.create_future()

    def fail(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not failed.done():
            failed.set_exception(context.get("exception") or RuntimeError(context["message"]))

    loop.set_exception_handler(fail)
    await failed
