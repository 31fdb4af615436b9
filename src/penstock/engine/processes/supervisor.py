"""Starts components in the order of what they need, keeps them running, and stops them in reverse.

                 needs ready          says ready               dies
    waiting ------------> starting ------------> ready ------------------+
                             ^  | dies or is too slow                    |
                             |  v                                        v
                             +-- after a delay ------------------- restarting --keeps dying--> given up

A component is ready when it says so on its pipe, or when its probe returns; never because time has passed.

One that is given up ends a stack that has never been whole: whoever starts it is there to read why. A stack that has
served goes on without it: the ingress accepts events also while nobody routes them, and the one that keeps dying is
tried again in longer pauses.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from penstock.engine.processes import process
from penstock.engine.processes import restarts as diagnosis
from penstock.engine.processes.child_logs import ComponentLog
from penstock.engine.processes.restarts import Deaths, GiveUp, Patience
from penstock.runtime.errors import UserError

State = Literal["waiting", "starting", "ready", "restarting", "stopping", "ended", "resting", "writing"]
"""The last two are of the writer of the history, which comes and goes."""


@dataclass(frozen=True)
class Component:
    """What is to be kept running."""

    name: str
    command: Callable[[], Awaitable[list[str]]]
    """Prepares a start and returns what to run."""
    needs: tuple[str, ...] = ()
    stage: int = 0
    """Stopped before the components of lower stages."""
    early: bool = False
    """Started before what it needs is ready, and told when that is: for programs that are slow to start."""
    late: bool = False
    """Started once all others are ready, and not waited for: for what the stack does its work without."""
    probe: Callable[[], Awaitable[dict[str, Any]]] | None = None
    """Returns when a program that does not speak on its pipe is ready, with details to show."""
    before_last_try: Callable[[], None] = lambda: None
    """Called when it failed to start until one try is left, so that this one goes without what it can do without."""
    start_seconds: float = 120.0
    """Longer than this is too slow: it is ended and counts as dead."""


class Observer(Protocol):
    """Who is told what happens, for the terminal and the record."""

    def changed(self, watch: Watch) -> None:
        """The state of a component is another one now."""

    def remark(self, watch: Watch, text: str) -> None:
        """Something happened that a person should read."""

    def news(self, text: str) -> None:
        """Something happened to the user's own objects."""


@dataclass
class Watch:
    """A component and how it is doing."""

    component: Component
    log: ComponentLog
    state: State = "waiting"
    child: process.Child | None = None
    since: float = field(default_factory=time.time)
    """Unix time at which the state began."""
    restarts: int = 0
    details: dict[str, Any] = field(default_factory=dict)
    reason: str | None = None
    """Why it ended last, in its own words."""
    ready: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def name(self) -> str:
        """The component's name."""
        return self.component.name


class Supervisor:
    """Keeps a set of components running until it is told to stop."""

    def __init__(
        self,
        components: list[Component],
        log_dir: Path,
        env: dict[str, str],
        observer: Observer,
        *,
        drain_seconds: float = 5.0,
        patience: Patience | None = None,
        echo: Callable[[str, str], None] | None = None,
    ) -> None:
        self.watches = {one.name: Watch(one, ComponentLog(log_dir, one.name, echo)) for one in components}
        self._env, self._observer, self._drain = env, observer, drain_seconds
        self._patience = patience or Patience()
        self._was_whole = False

    async def run(self, stop: asyncio.Event, on_ready: Callable[[], None]) -> None:
        """Runs everything until `stop` is set. Raises UserError if a component is given up before all were ready."""
        keepers = [asyncio.create_task(self._keep(watch), name=name) for name, watch in self.watches.items()]
        stopped = asyncio.create_task(stop.wait())
        announced = asyncio.create_task(self._announce(on_ready))
        try:
            await asyncio.wait([*keepers, stopped], return_when=asyncio.FIRST_COMPLETED)
            for keeper in keepers:
                if keeper.done():
                    keeper.result()
        finally:
            for task in (*keepers, stopped, announced):
                task.cancel()
            await asyncio.gather(*keepers, stopped, announced, return_exceptions=True)
            await self._stop_all()

    async def _announce(self, on_ready: Callable[[], None]) -> None:
        await self._others_ready()
        self._was_whole = True
        on_ready()

    async def _others_ready(self) -> None:
        """Waits for everything that is not late."""
        for watch in self.watches.values():
            if not watch.component.late:
                await watch.ready.wait()

    async def _keep(self, watch: Watch) -> None:
        deaths = Deaths(self._patience)
        if watch.component.late:
            await self._others_ready()
        while True:
            if not watch.component.early:
                await self._needs_of(watch)
            began = time.monotonic()
            was_ready = await self._live(watch)
            decision = deaths.count(time.monotonic() - began, was_ready)
            if isinstance(decision, GiveUp):
                if not self._was_whole:
                    self._set(watch, "ended")
                    raise self._given_up(watch, decision)
                await self._rest(watch, decision)
                deaths = Deaths(self._patience)
                continue
            if deaths.one_try_left:
                watch.component.before_last_try()
            when = f" in {decision.delay:g} s" if decision.delay else ""
            said = f"{watch.reason}; starting it again{when}"
            self._restarting(watch, said, diagnosis.remedy([watch.reason or "", *watch.log.last]))
            self._observer.remark(watch, said)
            await asyncio.sleep(decision.delay)

    async def _rest(self, watch: Watch, decision: GiveUp) -> None:
        """Waits before one that keeps dying is tried once more."""
        problem, pause = self._given_up(watch, decision), self._patience.pause_when_given_up
        said = f"{problem.what} The others go on; trying it again in {pause:g} s."
        self._restarting(watch, said, problem.remedy)
        self._observer.remark(watch, f"{said} {problem.remedy}")
        await asyncio.sleep(pause)

    def _restarting(self, watch: Watch, problem: str, remedy: str | None) -> None:
        """The record says why it is not there until it is ready again."""
        watch.restarts += 1
        watch.details = {"problem": f"{problem}. {remedy}" if remedy else problem}
        self._set(watch, "restarting")

    async def _live(self, watch: Watch) -> bool:
        """One life of a component, from start to death. True if it was ready in between."""
        watch.reason, watch.details = None, {name: watch.details[name] for name in watch.details if name == "problem"}
        self._set(watch, "starting")
        said_ready = asyncio.Event()

        def hear(message: process.Message) -> None:
            kind = message.pop("event", None)
            if kind == "fail":
                watch.reason = str(message.get("reason"))
                return
            if kind == "news":
                self._observer.news(str(message.get("text")))
                return
            watch.details.update(message)
            if kind == "ready":
                said_ready.set()
            self._observer.changed(watch)

        component = watch.component
        try:
            command = await component.command()
            child = await process.spawn(
                watch.name, command, self._env, heard=hear, logged=watch.log.write, speaks=component.probe is None
            )
        except OSError as error:  # the disk is full, say: later it may work, and the others go on
            watch.reason = f"could not be started: {error}"
            return False
        watch.child = child
        self._observer.changed(watch)
        ended = asyncio.create_task(child.wait())
        became_ready = asyncio.create_task(self._become_ready(watch, child, said_ready))
        try:
            done, _ = await asyncio.wait(
                [ended, became_ready], timeout=component.start_seconds, return_when=asyncio.FIRST_COMPLETED
            )
            if not done:
                watch.reason = f"was not ready within {component.start_seconds:g} s"
                child.kill()
            elif became_ready in done and not became_ready.cancelled() and became_ready.exception() is None:
                watch.ready.set()
                watch.details.pop("problem", None)
                self._set(watch, "ready")
            elif became_ready in done:
                watch.reason = str(became_ready.exception())
                child.kill()
            code = await ended
            watch.reason = watch.reason or _how_it_ended(code)
            watch.child = None
            return watch.ready.is_set()
        finally:
            became_ready.cancel()
            ended.cancel()
            watch.ready.clear()

    async def _become_ready(self, watch: Watch, child: process.Child, said_ready: asyncio.Event) -> None:
        if watch.component.early:
            await self._needs_of(watch)
        child.release()
        if watch.component.probe is None:
            await said_ready.wait()
        else:
            watch.details.update(await watch.component.probe())

    async def _needs_of(self, watch: Watch) -> None:
        for need in watch.component.needs:
            await self.watches[need].ready.wait()

    async def _stop_all(self) -> None:
        """Stage by stage, the highest first; within a stage together."""
        for stage in sorted({watch.component.stage for watch in self.watches.values()}, reverse=True):
            await asyncio.gather(
                *(self._stop(watch) for watch in self.watches.values() if watch.component.stage == stage)
            )
        for watch in self.watches.values():
            watch.log.close()

    async def _stop(self, watch: Watch) -> None:
        if watch.child is not None:
            self._set(watch, "stopping")
            if not await watch.child.stop(self._drain):
                self._observer.remark(watch, f"had not ended after {self._drain:g} s and was killed")
            watch.child = None
        self._set(watch, "ended")

    def _set(self, watch: Watch, state: State) -> None:
        watch.state, watch.since = state, time.time()
        self._observer.changed(watch)

    def _given_up(self, watch: Watch, decision: GiveUp) -> UserError:
        lines = list(watch.log.last)
        often = f"{decision.deaths} times" if decision.deaths > 1 else "once"
        return UserError(
            f"{watch.name} ended {often}; the last reason: {watch.reason}.",
            diagnosis.remedy([watch.reason or "", *lines]) or f"See its log: {watch.log.path}",
            tuple(lines[-20:]),
        )


def _how_it_ended(code: int) -> str:
    return f"ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
