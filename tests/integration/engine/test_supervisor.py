"""The supervisor under real process deaths."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from penstock.engine.processes.restarts import RestartPolicy
from penstock.engine.processes.supervisor import Component, Supervisor, Watch
from penstock.runtime.errors import UserError
from tests.waiting import eventually, until
from tools.chaos.victims import alive

ACTOR = Path(__file__).with_name("actor.py")
IMPATIENT = RestartPolicy(
    first_delay=0.05, longest_delay=0.2, crashes_before_ready=2, crashes_after_ready=3, cooldown_seconds=0.1
)


class Notes:
    """An observer that remembers."""

    def __init__(self) -> None:
        self.states: list[tuple[str, str]] = []
        self.remarks: list[str] = []

    def changed(self, watch: Watch) -> None:
        self.states.append((watch.name, watch.state))

    def remark(self, watch: Watch, text: str) -> None:
        self.remarks.append(f"{watch.name} {text}")

    def news(self, text: str) -> None:
        self.remarks.append(text)


def actor(folder: Path, name: str, part: str = "serves", **options: Any) -> Component:
    async def command() -> list[str]:
        return [sys.executable, str(ACTOR), part, str(folder), name]

    return Component(name, command, **options)


@asynccontextmanager
async def supervised(
    folder: Path, components: list[Component], notes: Notes, drain: float = 30.0
) -> AsyncIterator[tuple[Supervisor, asyncio.Task[None]]]:
    """A supervisor at work, ready; stopped at the end."""
    supervisor = Supervisor(components, folder, dict(os.environ), notes, drain_seconds=drain, restart_policy=IMPATIENT)
    stop, ready = asyncio.Event(), asyncio.Event()
    task = asyncio.create_task(supervisor.run(stop, ready.set))
    await asyncio.wait_for(ready.wait(), 60)
    try:
        yield supervisor, task
    finally:
        stop.set()
        await asyncio.wait_for(task, 60)


def journal(folder: Path) -> list[str]:
    """What the actors did, without pids."""
    return [line.rpartition(" ")[0] for line in (folder / "journal").read_text().splitlines()]


async def test_components_start_when_what_they_need_is_ready_and_stop_in_reverse(tmp_path: Path) -> None:
    components = [
        actor(tmp_path, "user", needs=("base",), stage=1),
        actor(tmp_path, "base", part="slow", stage=0),
    ]
    async with supervised(tmp_path, components, Notes()) as (supervisor, _):
        assert supervisor.watches["user"].details == {"address": "there/user"}
    done = [line for line in journal(tmp_path) if not line.startswith("released")]
    assert done == ["started base", "ready base", "started user", "ready user", "stopped user", "stopped base"]


async def test_an_early_component_is_released_when_what_it_needs_is_ready(tmp_path: Path) -> None:
    components = [
        actor(tmp_path, "base", part="second"),
        actor(tmp_path, "early", needs=("base",), early=True, stage=1),
    ]
    async with supervised(tmp_path, components, Notes()):
        await until(lambda: "released early" in journal(tmp_path))
    done = journal(tmp_path)
    assert done.index("started early") < done.index("ready base") < done.index("released early")


@pytest.mark.parametrize("victim", ["first", "second"])
async def test_a_killed_child_is_started_again(tmp_path: Path, victim: str) -> None:
    notes = Notes()
    components = [actor(tmp_path, "first"), actor(tmp_path, "second", needs=("first",))]
    async with supervised(tmp_path, components, notes) as (supervisor, _):
        watch = supervisor.watches[victim]
        before = watch.child
        assert before is not None
        os.kill(before.pid, signal.SIGKILL)
        await until(lambda: watch.restarts == 1 and watch.state == "ready")
        assert watch.child is not None
        assert watch.child.pid != before.pid
        others = [one for name, one in supervisor.watches.items() if name != victim]
        assert all(one.restarts == 0 and one.state == "ready" for one in others)
    assert notes.remarks == [f"{victim} ended by signal 9; restarting it"]


async def test_one_that_fails_at_start_ends_the_whole_with_its_last_words(tmp_path: Path) -> None:
    last_tries: list[str] = []
    supervisor = Supervisor(
        [
            actor(tmp_path, "good"),
            actor(tmp_path, "bad", part="fails", before_last_try=lambda: last_tries.append("bad")),
        ],
        tmp_path,
        dict(os.environ),
        Notes(),
        restart_policy=IMPATIENT,
    )
    with pytest.raises(UserError) as raised:
        await asyncio.wait_for(supervisor.run(asyncio.Event(), lambda: None), 60)
    assert raised.value.what == "bad ended 2 times, the last time because: it cannot write."
    assert "disk is full" in raised.value.remedy
    assert last_tries == ["bad"]
    assert raised.value.details[-1] == "the disk said: No space left on device"
    assert all(watch.child is None for watch in supervisor.watches.values())


async def test_one_that_keeps_dying_is_tried_on_and_the_others_are_left_alone(tmp_path: Path) -> None:
    notes = Notes()
    components = [actor(tmp_path, "ingress"), actor(tmp_path, "pipeline", part="short-lived")]
    async with supervised(tmp_path, components, notes) as (supervisor, task):
        given_up = "pipeline pipeline ended 3 times, the last time because: ended with exit code 4. The other "
        await until(lambda: sum(remark.startswith(given_up) for remark in notes.remarks) >= 2, seconds=120)
        assert not task.done()
        ingress = supervisor.watches["ingress"]
        assert (ingress.state, ingress.restarts) == ("ready", 0)


async def test_one_that_cannot_be_started_for_a_while_ends_nothing_and_the_record_says_why(tmp_path: Path) -> None:
    """A full disk keeps Kafka's files from being written: its start is tried again, and the others go on."""
    notes, full = Notes(), asyncio.Event()
    serving = actor(tmp_path, "kafka")

    async def command() -> list[str]:
        if full.is_set():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "server.properties")
        return await serving.command()

    components = [actor(tmp_path, "ingress"), Component("kafka", command)]
    async with supervised(tmp_path, components, notes) as (supervisor, task):
        kafka = supervisor.watches["kafka"]
        full.set()
        assert kafka.child is not None
        kafka.child.kill()
        await until(lambda: sum("The other components continue" in remark for remark in notes.remarks) >= 2, seconds=60)
        assert "No space left on device" in kafka.details["problem"]
        assert "free some space" in kafka.details["problem"]
        assert not task.done()
        full.clear()
        await until(lambda: kafka.state == "ready", seconds=60)
        assert "problem" not in kafka.details
        assert supervisor.watches["ingress"].restarts == 0


async def test_one_that_never_gets_ready_is_too_slow(tmp_path: Path) -> None:
    supervisor = Supervisor(
        [actor(tmp_path, "silent", part="silent", start_seconds=1.0)],
        tmp_path,
        dict(os.environ),
        Notes(),
        restart_policy=IMPATIENT,
    )
    with pytest.raises(UserError, match="was not ready within 1 s"):
        await asyncio.wait_for(supervisor.run(asyncio.Event(), lambda: None), 60)


async def test_one_that_will_not_stop_is_killed_after_its_time(tmp_path: Path) -> None:
    notes = Notes()
    async with supervised(tmp_path, [actor(tmp_path, "stubborn", part="stubborn")], notes, drain=0.3) as (keeper, _):
        child = keeper.watches["stubborn"].child
        assert child is not None
    assert notes.remarks == ["stubborn did not end within 0.3 s and was killed"]
    assert not psutil.pid_exists(child.pid)


async def test_a_program_that_does_not_speak_is_ready_when_its_probe_says_so(tmp_path: Path) -> None:
    async def command() -> list[str]:
        return ["/bin/sh", "-c", f"echo up; touch {tmp_path}/up; exec sleep 300"]

    async def probe() -> dict[str, Any]:
        await until((tmp_path / "up").exists)
        return {"address": "nowhere"}

    async with supervised(tmp_path, [Component("mute", command, probe=probe)], Notes()) as (supervisor, _):
        watch = supervisor.watches["mute"]
        assert watch.details == {"address": "nowhere"}
        await until(lambda: list(watch.log.last) == ["up"])


SUPERVISING = """
import asyncio, os, sys
sys.path.insert(0, {here!r})
from pathlib import Path
from penstock.engine.processes.supervisor import Component, Supervisor
from tests.integration.engine.test_supervisor import Notes, actor
folder = Path({folder!r})
async def sleeper(): return ["/bin/sleep", "300"]
async def at_once(): return {{}}
mute = Component("mute", sleeper, probe=at_once)
parts = [actor(folder, "one"), actor(folder, "two", part="stubborn"), mute]
supervisor = Supervisor(parts, folder, dict(os.environ), Notes())
def ready():
    pids = [watch.child.pid for watch in supervisor.watches.values()]
    (folder / "pids").write_text(" ".join(map(str, pids)))
asyncio.run(supervisor.run(asyncio.Event(), ready))
"""


def test_children_end_when_the_supervisor_is_killed(tmp_path: Path) -> None:
    script = SUPERVISING.format(here=str(ACTOR.parent), folder=str(tmp_path))
    path = os.pathsep.join(sys.path)
    supervisor = subprocess.Popen([sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": path})
    try:
        eventually(lambda: (tmp_path / "pids").exists() and (tmp_path / "pids").read_text())
        children = [psutil.Process(int(pid)) for pid in (tmp_path / "pids").read_text().split()]
        assert len(children) == 3
    finally:
        supervisor.kill()
        supervisor.wait()
    psutil.wait_procs(children, timeout=60)
    assert not [process.cmdline() for process in children if alive(process)]
