"""One run: the cluster, its routes, load, faults one after the other, and the check that nothing was lost."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import objects
from chaos import checker, routes
from chaos.books import Books
from chaos.checker import Era, Expected, Findings
from chaos.events import CHANNEL_ANSWER
from chaos.load import Load
from chaos.receiver import Receiver
from chaos.recovery import Recovery, clock
from cluster.brokers import Brokers
from cluster.faults import Blow, Faults
from cluster.installation import Installation
from penstock.engine import jars, java
from penstock.settings import Settings

RECOVERY_SECONDS = 120.0
DRAIN_SECONDS = 120.0
STEADY_SECONDS = 5.0
LONGEST_PAUSE_SECONDS = 30.0
LONGEST_TAKE_OVER_SECONDS = 15.0
Strike = Callable[[], Awaitable[Blow]]
ROUTES = tuple(route for route in routes.STEADY if route.name in routes.HEALTHY)


@dataclass(frozen=True)
class Outcome:
    """A fault and what came of it, in seconds."""

    what: str
    victim: str
    take_over: float | None
    recovery: float
    """From the fault to the first delivery of an event that was accepted after it."""
    pause: float
    """The longest time without any delivery meanwhile."""


@dataclass
class Result:
    """What a run has shown."""

    outcomes: list[Outcome] = field(default_factory=list)
    findings: Findings = field(default_factory=Findings)
    accepted: int = 0
    deliveries: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    restarted: list[str] = field(default_factory=list)
    """Roles that ended although nothing was done to them, such as one that could not renew its claim."""
    seconds: float = 0.0
    start_seconds: float = 0.0

    @property
    def broken(self) -> list[str]:
        """Which promises were."""
        kinds: dict[str, Sequence[object]] = {
            "lost": self.findings.lost,
            "where they do not belong": self.findings.strangers,
            "out of order": self.findings.misordered,
        }
        found = [f"{len(events)} events {what}, such as {events[0]}" for what, events in kinds.items() if events]
        for one in self.outcomes:
            if one.pause > LONGEST_PAUSE_SECONDS:
                found.append(f"{one.victim} {one.what}: nothing was delivered for {one.pause:.1f} s")
            if one.take_over is not None and one.take_over > LONGEST_TAKE_OVER_SECONDS:
                found.append(f"{one.victim} {one.what}: its role was taken over after {one.take_over:.1f} s")
        return found


def expectations() -> list[Expected]:
    """What each subscriber is to get: the routes', and those that their answers go to."""
    answers = [route.reply_to for route in ROUTES if route.reply_to is not None]
    return [
        *(Expected(route.name, [Era(route.types)], route.ordered) for route in ROUTES),
        *(Expected(name, [Era(frozenset({CHANNEL_ANSWER}))]) for name in answers),
    ]


class Run:
    """Everything that runs beside the cluster, in one event loop."""

    def __init__(
        self, folder: Path, rate: float, only: set[str], most_seconds: float, say: Callable[[str], None]
    ) -> None:
        found = java.find()
        self.brokers = Brokers(folder / "kafka", jars.resolve(Settings(), found), found)
        self.installation = Installation(folder, self.brokers.bootstrap)
        self.result = Result()
        self._only, self._most_seconds, self._say = only, most_seconds, say
        self._books = Books()
        self._recovery = Recovery(self._books.sent, routes.HEALTHY)
        self._receiver = Receiver(self._books, random.Random(1), self._recovery.delivered)
        self._load = Load(self._books.sent, rate, lambda: self.installation.ingress_url, self._recovery.accepted)
        self._expected = expectations()

    async def run(self) -> Result:
        """From start to verdict."""
        began = clock()
        await self._receiver.start()
        await self.brokers.start()
        self._say(f"  {clock() - began:5.0f} s  three brokers are up")
        await self.installation.start()
        self._say(f"  {clock() - began:5.0f} s  every role serves or stands by")
        await asyncio.to_thread(self._prepare)
        self.result.start_seconds = clock() - began
        self._say(f"  {self.result.start_seconds:5.0f} s  every route is Ready; events flow")
        async with asyncio.TaskGroup() as tasks:
            self._load.start(tasks)
            keeping = tasks.create_task(self.installation.keep())
            await asyncio.sleep(STEADY_SECONDS)
            for strike in self._faults():
                if clock() - began > self._most_seconds:
                    self._say("the time is up: no further faults")
                    break
                await self._one(strike)
            await asyncio.wait_for(self._load.stop(), RECOVERY_SECONDS)
            keeping.cancel()
        await self._drain()
        self.result.seconds = clock() - began
        self.result.findings = checker.check(self._books, self._expected)
        self.result.accepted, self.result.deliveries = self._books.sent.count, self._books.deliveries
        self.result.refused = dict(self._books.sent.refused)
        self.result.restarted = self.installation.restarted
        return self.result

    async def close(self) -> None:
        """Ends everything."""
        await self.installation.stop()
        await asyncio.gather(*(broker.program.stop() for broker in self.brokers.brokers))
        self._receiver.close()

    def _faults(self) -> list[Strike]:
        faults = Faults(self.installation, self.brokers)
        every = {
            "ingress": faults.kill_ingress,
            "control": faults.kill_control,
            "pipeline": faults.kill_pipeline,
            "broker": faults.kill_broker,
            "frozen": faults.freeze_pipeline,
            "frozen-driver": faults.freeze_driver,
            "stop-control": faults.stop_control,
            "stop-pipeline": faults.stop_pipeline,
        }
        return [strike for name, strike in every.items() if not self._only or name in self._only]

    async def _one(self, strike: Strike) -> None:
        self._recovery.begin(clock())
        blow = await strike()
        self._recovery.watch(blow.struck)
        recovered = await self._recovery.wait(RECOVERY_SECONDS)
        if recovered is None:
            raise RuntimeError(f"{blow.victim} {blow.what}: nothing new was delivered for {RECOVERY_SECONDS:g} s")
        outcome = Outcome(blow.what, blow.victim, blow.take_over, recovered - blow.struck, self._recovery.silence)
        self.result.outcomes.append(outcome)
        self._say(line(outcome))
        if blow.mended is not None:
            await blow.mended()
        self.installation.hit.clear()
        await asyncio.sleep(STEADY_SECONDS)

    async def _drain(self) -> None:
        deadline = clock() + DRAIN_SECONDS
        while clock() < deadline:
            await asyncio.sleep(1)
            if not any(True for one in self._expected for _ in checker.lost(self._books, one)):
                return

    def _prepare(self) -> None:
        api = objects.Api(self.installation.kubeconfig)
        api.create([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": routes.NAMESPACE}}])
        urls = routes.Urls(self._receiver.port, {})
        made = [routes.BROKER, routes.CHANNEL_OBJECT, *(routes.manifest(route, urls) for route in ROUTES)]
        api.create(made, routes.NAMESPACE)
        for plural in ("brokers", "channels", "triggers", "subscriptions"):
            names = {obj["metadata"]["name"] for obj in made if f"{obj['kind'].lower()}s" == plural}
            api.await_ready(plural, names, limit=180, namespace=routes.NAMESPACE)


def line(outcome: Outcome) -> str:
    """A row of the figures."""
    taken = "" if outcome.take_over is None else f"{outcome.take_over:.1f} s"
    cells = (
        f"{outcome.victim:<11}",
        f"{outcome.what:<12}",
        taken,
        f"{outcome.recovery:.1f} s",
        f"{outcome.pause:.1f} s",
    )
    return f"| {' | '.join(cells)} |"
