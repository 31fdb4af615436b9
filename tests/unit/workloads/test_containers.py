"""The life of one container over a Pod that only remembers: runs, probes, restarts, and what is told of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from penstock.workloads.images import Actor, Exit, Program, Run
from penstock.workloads.pods.containerlife import ContainerLife, Manifest
from penstock.workloads.pods.podstatus import Container, Running, Terminated, Waiting
from penstock.workloads.processes import probes
from penstock.workloads.processes.environment import ConfigError
from penstock.workloads.processes.process import CannotStart
from tests.waiting import until

SERVICE = Program("mine", ("mine",))


class ScriptedRun:
    """Ends at once with a code, or runs until it is told to stop."""

    def __init__(self, code: int | None) -> None:
        self._code = code
        self._stop = asyncio.Event()

    def stop(self, grace: float) -> None:
        self._stop.set()

    async def run(self, ready: Callable[[], None]) -> Exit:
        ready()
        if self._code is None:
            await self._stop.wait()
            return Exit(143)
        await asyncio.sleep(0)
        return Exit(self._code)


class RememberingPod:
    """Gives the runs it was made with, one after the other; its pauses are over at once."""

    def __init__(
        self, *runs: int | Exception | None, policy: str = "Always", answers: tuple[str | None, ...] = ()
    ) -> None:
        self.pod: Manifest = {"metadata": {"name": "p", "namespace": "ns"}, "spec": {"restartPolicy": policy}}
        self.stopping = asyncio.Event()
        self.states: list[Container] = []
        self.told: list[str] = []
        self.pauses: list[float] = []
        self._runs, self._answers = list(runs), list(answers)

    async def prepare(self, spec: Manifest, image: Actor | Program) -> Run:
        if not self._runs:
            self.stopping.set()
            return ScriptedRun(0)
        following = self._runs.pop(0)
        if isinstance(following, Exception):
            raise following
        return ScriptedRun(following)

    async def change(self, container: Container) -> None:
        self.states.append(container)

    async def record_event(self, reason: str, message: str, *, warning: bool = False) -> None:
        self.told.append(reason)

    async def pause(self, seconds: float) -> bool:
        self.pauses.append(seconds)
        await asyncio.sleep(0)
        return not self.stopping.is_set()

    def check(self, spec: Manifest, image: Actor | Program, probe: probes.Probe) -> Callable[[], Awaitable[str | None]]:
        async def ask() -> str | None:
            return self._answers.pop(0) if self._answers else None

        return ask

    def life(self, image: Actor | Program | None = SERVICE, *, init: bool = False, **spec: Any) -> ContainerLife:
        return ContainerLife(self, {"name": "main", "image": "mine", **spec}, image, restarts=0, init=init)

    @property
    def reasons(self) -> list[str]:
        """The states as kubectl shows them."""
        shown = {Running: "Running", Waiting: None, Terminated: None}
        return [shown[type(one.state)] or one.state.reason for one in self.states]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("policy", "code", "well", "shown"),
    [("Never", 0, True, "Completed"), ("OnFailure", 0, True, "Completed"), ("Never", 3, False, "Error")],
)
async def test_a_container_that_may_not_be_started_again(policy: str, code: int, well: bool, shown: str) -> None:
    pod = RememberingPod(code, policy=policy)
    assert await pod.life().run() is well
    assert pod.reasons[-1] == shown


async def test_each_failure_is_followed_by_a_longer_pause() -> None:
    pod = RememberingPod(1, 1, 1)
    await pod.life().run()
    assert pod.pauses == [10, 20, 40]
    assert [one.restarts for one in pod.states if isinstance(one.state, Waiting)] == [0, 1, 2]
    assert pod.states[-1].last is not None
    assert pod.states[-1].last.exit_code == 1


async def test_an_init_container_that_has_succeeded_is_not_started_again() -> None:
    pod = RememberingPod(1, 0)
    assert await pod.life(init=True).run()
    assert pod.pauses == [10]


async def test_what_is_missing_is_waited_for_and_told_in_the_status_once() -> None:
    missing = ConfigError('configmap "cm" not found')
    pod = RememberingPod(missing, missing, 0, policy="Never")
    assert await pod.life().run()
    assert pod.reasons.count("CreateContainerConfigError") == 1


@pytest.mark.parametrize(("policy", "shown"), [("Always", "RunContainerError"), ("Never", "StartError")])
async def test_a_program_that_is_not_there(policy: str, shown: str) -> None:
    pod = RememberingPod(CannotStart('exec: "mine": not found'), policy=policy)
    await pod.life().run()
    assert shown in pod.reasons


async def test_an_image_that_is_not_known_waits_for_good() -> None:
    pod = RememberingPod()
    living = asyncio.create_task(pod.life(None).run())
    await until(lambda: len(pod.told) >= 3, every=0.001)
    assert (pod.reasons, living.done()) == (["ImagePullBackOff"], False)
    assert (set(pod.told), pod.pauses[:2]) == ({"Failed"}, [10, 20])
    pod.stopping.set()
    assert await living is False


async def test_a_container_is_ready_when_its_probe_says_so_and_no_longer_when_it_does_not() -> None:
    pod = RememberingPod(None, answers=("not yet", None, "broken"))
    life = pod.life(readinessProbe={"tcpSocket": {"port": 80}, "periodSeconds": 0.001, "failureThreshold": 1})
    living = asyncio.create_task(life.run())
    await until(lambda: len([one for one in pod.states if isinstance(one.state, Running)]) >= 4, every=0.001)
    ready = [one.state.ready for one in pod.states if isinstance(one.state, Running)]
    assert ready[:4] == [False, True, False, True]
    pod.stopping.set()
    life.stop(0)
    await living


async def test_a_container_that_is_not_alive_is_stopped_and_started_again() -> None:
    pod = RememberingPod(None, answers=(None, "dead"))
    life = pod.life(livenessProbe={"exec": {"command": ["x"]}, "periodSeconds": 0.001, "failureThreshold": 1})
    await asyncio.wait_for(life.run(), 60)
    assert {"Unhealthy", "Killing", "BackOff"} <= set(pod.told)
    assert pod.states[-1].last is not None
    assert pod.states[-1].last.exit_code == 143


async def test_a_container_that_does_not_start_up_in_time_is_started_again() -> None:
    pod = RememberingPod(None, answers=("no",) * 50)
    life = pod.life(startupProbe={"tcpSocket": {"port": 80}, "periodSeconds": 0.001, "failureThreshold": 3})
    await asyncio.wait_for(life.run(), 60)
    assert "Killing" in pod.told
    assert not any(one.state.up for one in pod.states if isinstance(one.state, Running))
