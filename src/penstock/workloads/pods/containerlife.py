r"""The life of one container: prepared, run, probed, and started again as the Pod's restartPolicy says.

```
image unknown --> ImagePullBackOff, permanent
config missing --> CreateContainerConfigError, retried
program missing --> RunContainerError, retried with back-off
run --> ended --restartPolicy--> CrashLoopBackOff --> run
            \--> Completed | Error
```
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Protocol

from penstock.runtime.rate_limit import pause_after
from penstock.runtime.times import rfc3339
from penstock.workloads.images import Actor, Exit, Program, Run, refusal
from penstock.workloads.pods.podstatus import Container, Running, Terminated, Waiting
from penstock.workloads.processes import probes
from penstock.workloads.processes.environment import ConfigError
from penstock.workloads.processes.process import START_ERROR, CannotStart

FIRST_SECONDS = 10.0
LONGEST_SECONDS = 300.0
FORGIVEN_SECONDS = 600.0
"""A run of this length resets the back-off."""


def restarts(policy: str, exit_code: int) -> bool:
    """Whether a container that ended with `exit_code` is restarted."""
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def back_off(failures: int) -> float:
    """Seconds to wait before the next start, after `failures` ends in a row."""
    return pause_after(failures, FIRST_SECONDS, LONGEST_SECONDS)


def waiting_message(seconds: float, container: str, pod: str, namespace: str, uid: str) -> str:
    """What kubectl shows while the container waits."""
    return f"back-off {seconds:.0f}s restarting failed container={container} pod={pod}_{namespace}({uid})"


def event_message(container: str, pod: str, namespace: str, uid: str) -> str:
    """The message of the Event about it."""
    return f"Back-off restarting failed container {container} in pod {pod}_{namespace}({uid})"


CONFIG_RETRY_SECONDS = 2.0

Manifest = dict[str, Any]
Image = Actor | Program | None


class Home(Protocol):
    """The interface of a Pod for its containers."""

    pod: Manifest
    stopping: asyncio.Event

    async def prepare(self, spec: Manifest, image: Actor | Program) -> Run:
        """The next run of a container. Raises ConfigError or CannotStart."""

    async def change(self, container: Container) -> None:
        """Writes the container's new state into the Pod's status."""

    async def record_event(self, reason: str, message: str, *, warning: bool = False) -> None:
        """An Event about the Pod."""

    async def pause(self, seconds: float) -> bool:
        """Waits; False if the Pod is being stopped."""

    def check(self, spec: Manifest, image: Actor | Program, probe: probes.Probe) -> Callable[[], Awaitable[str | None]]:
        """A check of the container, which returns an error or None."""


class ContainerLife:
    """One container."""

    def __init__(self, home: Home, spec: Manifest, image: Image, *, restarts: int, init: bool) -> None:
        self.state = Container(
            spec["name"],
            spec.get("image") or "",
            Waiting(
                "PodInitializing" if not init and (home.pod["spec"].get("initContainers")) else "ContainerCreating"
            ),
            restarts=restarts,
            init=init,
        )
        self._home, self._spec, self._image = home, spec, image
        self._program: Run | None = None
        self._grace = 0.0

    def stop(self, grace: float) -> None:
        """Stops the current run within `grace` seconds."""
        self._grace = grace
        if self._program is not None:
            self._program.stop(grace)

    async def run(self) -> bool:
        """Runs until the container has ended permanently or is stopped; whether it succeeded."""
        if self._image is None:
            await self._refuse()
            return False
        policy, failures = self._policy(), 0
        loop = asyncio.get_running_loop()
        while not self._home.stopping.is_set():
            began, started = loop.time(), rfc3339()
            ended = await self._once(self._image, started)
            if ended is None or self._home.stopping.is_set():
                return False
            failures = 1 if loop.time() - began > FORGIVEN_SECONDS else failures + 1
            if not restarts(policy, ended.exit_code):
                await self._change(state=ended)
                return ended.exit_code == 0
            await self._back_off(ended, failures)
        return False

    def _policy(self) -> str:
        policy = str(self._home.pod["spec"].get("restartPolicy") or "Always")
        return "OnFailure" if self.state.init and policy == "Always" else policy

    async def _refuse(self) -> None:
        reason = refusal(self.state.image, self._home.pod["metadata"]["namespace"])
        message = f'Back-off pulling image "{self.state.image}": ErrImagePull: {reason}'
        await self._change(state=Waiting("ImagePullBackOff", message))
        for tries in itertools.count(1):
            await self._home.record_event(
                "Failed", f'Failed to pull image "{self.state.image}": {reason}', warning=True
            )
            if not await self._home.pause(back_off(tries)):
                return

    async def _once(self, image: Actor | Program, started: str) -> Terminated | None:
        """One run; None when stopped before it began."""
        try:
            program = await self._prepared(image)
        except CannotStart as error:
            reason = f"failed to start container {self.state.name!r}: {error}"
            await self._home.record_event("Failed", f"Error: {reason}", warning=True)
            return Terminated(START_ERROR, started, rfc3339(), reason, "StartError")
        if program is None:
            return None
        self._program = program
        if self._home.stopping.is_set():
            return None
        ended = await self._run(image, program, started)
        return Terminated(ended.code, started, rfc3339(), ended.message)

    async def _prepared(self, image: Actor | Program) -> Run | None:
        """The next run; waits while something it refers to is missing. None when stopped meanwhile."""
        while not self._home.stopping.is_set():
            try:
                return await self._home.prepare(self._spec, image)
            except ConfigError as error:
                waiting = Waiting("CreateContainerConfigError", str(error))
                if self.state.state != waiting:
                    await self._change(state=waiting)
                await self._home.record_event("Failed", f"Error: {error}", warning=True)
                await self._home.pause(CONFIG_RETRY_SECONDS)
        return None

    async def _run(self, image: Actor | Program, program: Run, started: str) -> Exit:
        ready = asyncio.Event()
        running, serving = asyncio.create_task(program.run(ready.set)), asyncio.create_task(ready.wait())
        watching: asyncio.Task[None] | None = None
        try:
            await asyncio.wait({running, serving}, return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                watching = asyncio.create_task(self._started(image, program, started))
                await asyncio.wait({running, watching}, return_when=asyncio.FIRST_COMPLETED)
                if watching.done():
                    watching.result()
            return await asyncio.shield(running)
        finally:
            serving.cancel()
            if watching is not None:
                watching.cancel()
                await asyncio.wait({watching})
            if not running.done():  # this task was cancelled: the program must not continue
                program.stop(0)
                await asyncio.wait({running})

    async def _started(self, image: Actor | Program, program: Run, started: str) -> None:
        wanted = {} if isinstance(image, Actor) else probes.read_probes(self._spec)
        await self._change(
            state=Running(started, ready=not wanted.keys() & {"startup", "readiness"}, up="startup" not in wanted)
        )
        await self._home.record_event("Started", f"Started container {self.state.name}")
        if wanted:
            await self._probe(image, program, wanted)

    async def _probe(self, image: Actor | Program, program: Run, wanted: dict[probes.Name, probes.Probe]) -> None:
        """Probes the container while it runs; stops it if the startup or liveness probe fails."""
        startup = wanted.get("startup")
        if startup:
            if not await self._until(image, startup, held=False):
                await self._kill(program, startup)
                return
            await self._become(ready="readiness" not in wanted)
        async with asyncio.TaskGroup() as group:
            if "readiness" in wanted:
                group.create_task(self._watch_readiness(image, wanted["readiness"]))
            if "liveness" in wanted:
                group.create_task(self._watch_liveness(image, program, wanted["liveness"]))

    async def _watch_readiness(self, image: Actor | Program, probe: probes.Probe) -> None:
        ready, first = False, True
        while True:
            ready = await self._until(image, probe, held=ready, first=first)
            await self._become(ready=ready)
            first = False

    async def _watch_liveness(self, image: Actor | Program, program: Run, probe: probes.Probe) -> None:
        await self._until(image, probe, held=True)
        await self._kill(program, probe)

    async def _until(self, image: Actor | Program, probe: probes.Probe, *, held: bool, first: bool = True) -> bool:
        """Checks until the result differs from `held`, or the time of a startup probe is over. `first`: the container
        has just been started."""
        count, began = probes.Count(probe, held), asyncio.get_running_loop().time()
        check = self._home.check(self._spec, image, probe)
        await asyncio.sleep(probe.initial_delay if first else probe.period)
        while True:
            failure = await check()
            if failure is not None:
                what = f"{probe.name.capitalize()} probe failed: {failure}"
                if count.is_worth_an_event():
                    await self._home.record_event("Unhealthy", what, warning=True)
            verdict = count.take(failure is None)
            if verdict is not held:
                return verdict
            waited = asyncio.get_running_loop().time() - began
            if probe.name == "startup" and waited >= probe.initial_delay + probe.period * probe.failure_threshold:
                return False
            await asyncio.sleep(probe.pause(eager=first and not held))

    async def _kill(self, program: Run, probe: probes.Probe) -> None:
        await self._home.record_event(
            "Killing", f"Container {self.state.name} failed {probe.name} probe, will be restarted"
        )
        grace = probe.grace if probe.grace is not None else self._home.pod["spec"].get("terminationGracePeriodSeconds")
        program.stop(float(30 if grace is None else grace))

    async def _become(self, *, ready: bool) -> None:
        if isinstance(self.state.state, Running):
            await self._change(state=replace(self.state.state, ready=ready, up=True))

    async def _back_off(self, last: Terminated, failures: int) -> None:
        pause = back_off(failures)
        metadata = self._home.pod["metadata"]
        where = (self.state.name, metadata["name"], metadata["namespace"], str(metadata.get("uid", "")))
        if last.why == "StartError":
            waiting = Waiting("RunContainerError", last.message)
        else:
            waiting = Waiting("CrashLoopBackOff", waiting_message(pause, *where))
        await self._change(state=waiting, last=last)
        await self._home.record_event("BackOff", event_message(*where), warning=True)
        await self._home.pause(pause)
        self.state = replace(self.state, restarts=self.state.restarts + 1)

    async def _change(self, **changes: Any) -> None:
        self.state = replace(self.state, **changes)
        await self._home.change(self.state)
