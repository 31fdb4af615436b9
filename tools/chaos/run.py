"""One run: a stack, its routes, load, an experiment, and after it the check."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException

from penstock.settings import Settings
from tools.benchmarks import objects
from tools.chaos import checker, routes, trail
from tools.chaos.books import Books
from tools.chaos.changes import Changes
from tools.chaos.checker import Lost
from tools.chaos.experiments import Experiment
from tools.chaos.faults import Blow
from tools.chaos.load import Load
from tools.chaos.receiver import Receiver
from tools.chaos.recovery import RECOVERY_SECONDS, Recovery, clock
from tools.chaos.results import Result, Step
from tools.chaos.stack import Stack

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
class Measured:
    """A fault that has happened, and how the stack recovered from it."""

    blow: Blow
    at: float
    recovery: float | None
    silence: float | None


class Run:
    """Everything that runs beside the stack, in one event loop."""

    def __init__(
        self,
        experiment: Experiment,
        seed: int,
        rate: float,
        folder: Path,
        say: Callable[[str], None],
        *,
        faults: int = 0,
    ) -> None:
        self._experiment = experiment
        self.result = Result(seed, rate, faults, experiment.name)
        self.stack = Stack(folder, experiment.settings)
        self.say = say
        self.books = Books()
        self._recovery = Recovery(self.books.sent, routes.HEALTHY)
        self._receiver = Receiver(self.books, random.Random(f"{seed} receiver"), self._recovery.delivered)
        self._load = Load(self.books.sent, rate, lambda: self.stack.ingress_url, self._recovery.accepted)
        self.urls = routes.Urls(self._receiver.port, {routes.COMES_AND_GOES: self._receiver.other_port})
        steady = (*routes.STEADY, *experiment.routes)
        self.expected = routes.expectations(steady)
        chance = random.Random(f"{seed} changes")
        self.changes = Changes(
            self.stack, self.books, self.expected, self.urls, chance, steady=steady, pace=experiment.pace
        )
        self._chance = random.Random(f"{seed} receivers")
        self._supervisor_may_end = False
        self._around = contextlib.ExitStack()
        self._began = 0.0

    async def run(self) -> Result:
        """From start to verdict. The stack still runs then."""
        await self._receiver.start()
        self.stack.environment = self._around.enter_context(self._experiment.surroundings(self.stack.data))
        await self.stack.start()
        await self.stack.ready()
        await asyncio.to_thread(self._prepare)
        self._began = clock()
        async with asyncio.TaskGroup() as tasks:  # whatever fails beside the faults ends the run
            self._load.start(tasks)
            changes = tasks.create_task(self.changes.run())
            minders = [tasks.create_task(self._restart_supervisor()), tasks.create_task(self._come_and_go())]
            minders.append(tasks.create_task(_fail_with_callbacks()))
            await asyncio.sleep(WARM_UP_SECONDS)
            await self._experiment.strike(self)
            await self._drain(changes)
            await asyncio.sleep(AFTER_SECONDS)
            for task in minders:
                task.cancel()
        self._close_books()
        return self.result

    async def close(self) -> None:
        """Ends the stack, the subscribers, and what was around the stack."""
        await self.stack.stop()
        self._receiver.close()
        await asyncio.to_thread(self._around.close)

    def _prepare(self) -> None:
        api = objects.Api(self.stack.kubeconfig)
        api.create([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": routes.NAMESPACE}}])
        made = [routes.BROKER, routes.CHANNEL_OBJECT, *self.changes.initial()]
        api.create(made, routes.NAMESPACE)
        for plural in ("brokers", "channels", "triggers", "subscriptions"):
            names = {obj["metadata"]["name"] for obj in made if f"{obj['kind'].lower()}s" == plural}
            api.await_ready(plural, names, limit=120, namespace=routes.NAMESPACE)

    # --- for experiments -----------------------------------------------------------------------------------------

    async def measure(self, strike: Callable[[], Awaitable[Blow]], *, wait: bool = True) -> Measured:
        """Does something to the stack, and waits until it has recovered."""
        at = clock() - self._began
        self._recovery.begin(clock())
        blow = await strike()
        if not wait:
            return Measured(blow, at, None, None)
        self._recovery.watch(blow.over)
        recovered = await self._recovery.wait(RECOVERY_SECONDS)
        if recovered is None:
            return Measured(blow, at, None, None)
        return Measured(blow, at, recovered - blow.struck, self._recovery.silence)

    async def step(self, what: str, strike: Callable[[], Awaitable[Blow]], seen: Callable[[], str] = str) -> Step:
        """The same as a part of the experiment, with what was seen; a problem where nothing was delivered after it."""
        measured = await self.measure(strike)
        step = Step(what, measured.at, measured.recovery, measured.silence, seen())
        self.result.steps.append(step)
        took = "no recovery seen" if step.recovery is None else f"recovered after {step.recovery:.2f} s"
        silence = "" if step.silence is None else f", silence {step.silence:.1f} s"
        self.say(f"{step.at:6.0f} s  {what}: {took}{silence}  {self.counts}")
        if step.seen:
            self.say(f"          {step.seen}")
        if step.recovery is None:
            self.problem(f"{what}: nothing new was delivered within {RECOVERY_SECONDS:g} s")
        return step

    @contextlib.contextmanager
    def supervisor_may_end(self, *, may: bool = True) -> Iterator[None]:
        """Within, a supervisor that ends is started again by who has ended it."""
        self._supervisor_may_end = may
        try:
            yield
        finally:
            self._supervisor_may_end = False

    def problem(self, text: str) -> None:
        """Something is wrong beside what the books show."""
        self.result.problems.append(text)
        self.say(f"  {text}")

    @property
    def counts(self) -> str:
        """How much has gone through so far."""
        return f"{self.books.sent.count:,} accepted, {self.books.deliveries:,} delivered"

    # -------------------------------------------------------------------------------------------------------------

    async def _restart_supervisor(self) -> None:
        """A supervisor that ends by itself is started again, as a service manager would."""
        while True:
            await asyncio.sleep(0.2)
            if not self.stack.runs and not self._supervisor_may_end:
                self.result.gave_up += 1
                last = self.stack.printed().decode().strip().splitlines()[-2:]
                self.say(f"  the supervisor ended by itself and is started again: {' / '.join(last)}")
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
        self.changes.stop()
        await self._limited(self._load.stop(), "events were not accepted any more")
        await self._limited(changes, "a route change did not become Ready any more")
        self.result.seconds = clock() - self._began
        await self._receiver.come()
        missing = self._missing()
        self.say(f"  {self.books.sent.count:,} events accepted, {len(missing):,} deliveries still to come")
        arrived, since = self.books.deliveries, clock()
        while missing and clock() < since + STALLED_SECONDS:
            await asyncio.sleep(0.5)
            missing = [one for one in missing if not self.books.at(one.subscriber).taken(one.id)]
            if self.books.deliveries != arrived:
                arrived, since = self.books.deliveries, clock()

    async def _limited(self, work: Awaitable[None], what: str) -> None:
        try:
            await asyncio.wait_for(work, RECOVERY_SECONDS)
        except TimeoutError:
            self.problem(f"{what}, {RECOVERY_SECONDS:g} s after the last fault")

    def _missing(self) -> list[Lost]:
        return [one for expected in self.expected for one in checker.lost(self.books, expected)]

    def _close_books(self) -> None:
        result, sent = self.result, self.books.sent
        result.findings = checker.check(self.books, self.expected)
        result.accepted, result.resent, result.deliveries = sent.count, sent.resent, self.books.deliveries
        result.refused, result.changes = dict(sent.refused), list(self.changes.ready_seconds)
        result.changed = self.changes.made
        if lost := result.findings.lost:
            try:
                reported = self._experiment.reported(self, lost)
                result.reported, result.findings.lost = len(reported), [one for one in lost if one not in reported]
                result.trails = trail.trails(Settings(**self.stack.settings), result.findings.lost[:TRAILS])
            except KafkaException as error:  # where Kafka is away, the rest of the report counts all the same
                self.problem(f"the topics could not be read: {error!r}")


async def _fail_with_callbacks() -> None:
    """Ends with the first exception of a callback of the loop, such as a subscriber's, which nothing else would see."""
    loop = asyncio.get_running_loop()
    failed: asyncio.Future[None] = loop.create_future()

    def fail(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not failed.done():
            failed.set_exception(context.get("exception") or RuntimeError(context["message"]))

    loop.set_exception_handler(fail)
    await failed
