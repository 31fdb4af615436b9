"""Starts components in the order of what they need, keeps them running, and stops them in reverse.

                 needs ready          says ready               dies
    waiting ------------> starting ------------> ready ------------------+
                             ^  | dies or is too slow                    |
                             |  v                                        v
                             +-- after a delay ------------------- restarting --crash limit--> error or cool-down

A component is ready when it reports so on its pipe, or when its probe returns; never because time has passed.

A component that reaches the crash limit (RestartPolicy) fails a stack that is still starting. A stack that has been
ready continues without it, because the ingress can accept events while they are not routed, and restarts it after a
longer delay.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from penstock.engine.processes import process, restarts
from penstock.engine.processes.child_logs import ComponentLog
from penstock.engine.processes.restarts import CrashCounter, GiveUp, RestartPolicy
from penstock.runtime.errors import UserError

State = Literal["waiting", "starting", "ready", "restarting", "stopping", "ended", "resting", "writing"]
"""`resting` and `writing` are states of the history writer."""


@dataclass(frozen=True)
class Component:
    """A component to keep running."""

    name: str
    command: Callable[[], Awaitable[list[str]]]
    """Prepares a start and returns the command line."""
    needs: tuple[str, ...] = ()
    stage: int = 0
    """Stopped before the components of lower stages."""
    early: bool = False
    """Started before its dependencies are ready, and notified then: for programs that are slow to start."""
    late: bool = False
    """Started when all others are ready; the stack is ready without it."""
    probe: Callable[[], Awaitable[dict[str, Any]]] | None = None
    """For programs that do not report on a pipe: returns details when the program is ready."""
    before_last_try: Callable[[], None] = lambda: None
    """Called before the last attempt to start it, such as to remove a class archive."""
    start_seconds: float = 120.0
    """A start that takes longer counts as a crash."""


class Observer(Protocol):
    """Receives events of the components, for the terminal and the record."""

    def changed(self, watch: Watch) -> None:
        """The state of a component has changed."""

    def remark(self, watch: Watch, text: str) -> None:
        """A notice about a component."""

    def news(self, text: str) -> None:
        """A notice about the user's own objects."""


@dataclass
class Watch:
    """A component and its state."""

    component: Component
    log: ComponentLog
    state: State = "waiting"
    child: process.Child | None = None
    since: float = field(default_factory=time.time)
    """Unix time of the last change of state."""
    restarts: int = 0
    details: dict[str, Any] = field(default_factory=dict)
    reason: str | None = None
    """Why it ended last, as the component reported it."""
    ready: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def name(self) -> str:
        """The component's name."""
        return self.component.name


class Supervisor:
    """Keeps components running until it is stopped."""

    def __init__(
        self,
        components: list[Component],
        log_dir: Path,
        env: dict[str, str],
        observer: Observer,
        *,
        drain_seconds: float = 5.0,
        restart_policy: RestartPolicy | None = None,
        echo: Callable[[str, str], None] | None = None,
    ) -> None:
        self.watches = {one.name: Watch(one, ComponentLog(log_dir, one.name, echo)) for one in components}
        self._env, self._observer, self._drain = env, observer, drain_seconds
        self._restart_policy = restart_policy or RestartPolicy()
        self._was_ready = False

    async def run(self, stop: asyncio.Event, on_ready: Callable[[], None]) -> None:
        """Runs all components until `stop` is set. Raises UserError for the crash limit before all were ready."""
        runners = [asyncio.create_task(self._keep_running(watch), name=name) for name, watch in self.watches.items()]
        stopped = asyncio.create_task(stop.wait())
        announced = asyncio.create_task(self._announce(on_ready))
        try:
            await asyncio.wait([*runners, stopped], return_when=asyncio.FIRST_COMPLETED)
            for runner in runners:
                if runner.done():
                    runner.result()
        finally:
            for task in (*runners, stopped, announced):
                task.cancel()
            await asyncio.gather(*runners, stopped, announced, return_exceptions=True)
            await self._stop_all()

    async def _announce(self, on_ready: Callable[[], None]) -> None:
        await self._others_ready()
        self._was_ready = True
        on_ready()

    async def _others_ready(self) -> None:
        """Waits for all components that are not late."""
        for watch in self.watches.values():
            if not watch.component.late:
                await watch.ready.wait()

    async def _keep_running(self, watch: Watch) -> None:
        crashes = CrashCounter(self._restart_policy)
        if watch.component.late:
            await self._others_ready()
        while True:
            if not watch.component.early:
                await self._needs_of(watch)
            began = time.monotonic()
            was_ready = await self._run_once(watch)
            decision = crashes.count(time.monotonic() - began, was_ready)
            if isinstance(decision, GiveUp):
                if not self._was_ready:
                    self._set(watch, "ended")
                    raise self._crash_error(watch, decision)
                await self._cool_down(watch, decision)
                crashes = CrashCounter(self._restart_policy)
                continue
            if crashes.has_one_try_left:
                watch.component.before_last_try()
            when = f" in {decision.delay:g} s" if decision.delay else ""
            said = f"{watch.reason}; restarting it{when}"
            self._restarting(watch, said, restarts.advice_for([watch.reason or "", *watch.log.last]))
            self._observer.remark(watch, said)
            await asyncio.sleep(decision.delay)

    async def _cool_down(self, watch: Watch, decision: GiveUp) -> None:
        """Waits before a component that has reached the crash limit is restarted."""
        problem, pause = self._crash_error(watch, decision), self._restart_policy.cooldown_seconds
        said = f"{problem.what} The other components continue; restarting it in {pause:g} s."
        self._restarting(watch, said, problem.remedy)
        self._observer.remark(watch, f"{said} {problem.remedy}")
        await asyncio.sleep(pause)

    def _restarting(self, watch: Watch, problem: str, remedy: str | None) -> None:
        """Records why the component is not ready."""
        watch.restarts += 1
        watch.details = {"problem": f"{problem}. {remedy}" if remedy else problem}
        self._set(watch, "restarting")

    async def _run_once(self, watch: Watch) -> bool:
        """Runs a component once, from start to end. True if it was ready in between."""
        watch.reason, watch.details = None, {name: watch.details[name] for name in watch.details if name == "problem"}
        self._set(watch, "starting")
        reported_ready = asyncio.Event()

        def on_message(message: process.Message) -> None:
            kind = message.pop("event", None)
            if kind == "fail":
                watch.reason = str(message.get("reason"))
                return
            if kind == "news":
                self._observer.news(str(message.get("text")))
                return
            watch.details.update(message)
            if kind == "ready":
                reported_ready.set()
            self._observer.changed(watch)

        component = watch.component
        try:
            command = await component.command()
            child = await process.spawn(
                watch.name,
                command,
                self._env,
                on_message=on_message,
                on_line=watch.log.write,
                reports=component.probe is None,
            )
        except OSError as error:  # such as a full disk; a later attempt may succeed
            watch.reason = f"could not be started: {error}"
            return False
        watch.child = child
        self._observer.changed(watch)
        ended = asyncio.create_task(child.wait())
        became_ready = asyncio.create_task(self._become_ready(watch, child, reported_ready))
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
            watch.reason = watch.reason or _exit_reason(code)
            watch.child = None
            return watch.ready.is_set()
        finally:
            became_ready.cancel()
            ended.cancel()
            watch.ready.clear()

    async def _become_ready(self, watch: Watch, child: process.Child, reported_ready: asyncio.Event) -> None:
        if watch.component.early:
            await self._needs_of(watch)
        child.release()
        if watch.component.probe is None:
            await reported_ready.wait()
        else:
            watch.details.update(await watch.component.probe())

    async def _needs_of(self, watch: Watch) -> None:
        for need in watch.component.needs:
            await self.watches[need].ready.wait()

    async def _stop_all(self) -> None:
        """Stops the stages one by one, the highest first; the components of a stage in parallel."""
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
                self._observer.remark(watch, f"did not end within {self._drain:g} s and was killed")
            watch.child = None
        self._set(watch, "ended")

    def _set(self, watch: Watch, state: State) -> None:
        watch.state, watch.since = state, time.time()
        self._observer.changed(watch)

    def _crash_error(self, watch: Watch, decision: GiveUp) -> UserError:
        lines = list(watch.log.last)
        often = f"{decision.crashes} times" if decision.crashes > 1 else "once"
        return UserError(
            f"{watch.name} ended {often}, the last time because: {watch.reason}.",
            restarts.advice_for([watch.reason or "", *lines]) or f"Its whole log: {watch.log.path}",
            tuple(lines[-20:]),
        )


def _exit_reason(code: int) -> str:
    return f"ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
