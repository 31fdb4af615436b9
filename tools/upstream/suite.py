"""One run of the suite against a stack, with progress for the one who waits.

Every test is a process of its own, several at a time: some tests of the suite do not run beside others of their
process, and the framework ends its whole process where it cannot prepare a test.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

import yaml

from penstock.engine.processes.process import tied_to_parent
from tools.upstream.binaries import SUITE, Binaries
from tools.upstream.testlog import Ended, TestLog

AT_ONCE = 6
"""Tests. They mostly wait: many ask only every five seconds whether something is ready."""
STEPS_AT_ONCE = 16
"""Of one test."""
ONE_AFTER_ANOTHER = frozenset(
    {
        *("TestEventTransformJsonataDirect", "TestEventTransformJsonataDirectTLS"),
        *("TestIntegrationSinkLogSuccess", "TestIntegrationSinkLogSuccessTLS"),
    }
)
"""Tests whose steps are run singly. In the same phase, they wait until an object has an address and read that address,
without which the process ends. Upstream runs all tests in one process, where the steps of a hundred others are queued
in between; here they would begin together."""
POLL_TIMEOUT, POLL_INTERVAL = "180s", "1s"
MOST_MINUTES = 15
"""A test that takes longer is cut off. Those that wait until a token has expired take eleven."""
FIRST = (
    *("TestBrokerConformance", "TestChannelConformance", "TestBrokerWithManyTriggers"),
    *("TestBrokerSupportsOIDC", "TestChannelImplSupportsOIDC"),
    *("TestEventTransformSupportsOIDC", "TestIntegrationSinkLogSupportsOIDC"),
)
"""These take longest, so that a run that begins with them is shorter."""
QUIET_SECONDS = 20
"""After so long without a test that ended, what still runs is told."""
LONGEST_LINE = 2**26
"""Steps of a failed test dump Pods and their logs in one line."""

Say = Callable[[str], None]


class NotListed(RuntimeError):
    """The suite did not say which tests it has."""


class SuiteRun:
    """Runs the tests and keeps what they told."""

    def __init__(self, binaries: Binaries, kubeconfig: Path, folder: Path, say: Say) -> None:
        self._binaries, self._folder, self._say = binaries, folder, say
        self._images = folder / "images.yaml"
        self._environment = {
            **os.environ,
            "KUBECONFIG": str(kubeconfig),
            "SYSTEM_NAMESPACE": "knative-eventing",
            "BROKER_CLASS": "MTChannelBasedBroker",
        }
        self._began = self._heard = time.monotonic()
        self._running: list[str] = []
        self.ended: list[Ended] = []
        self.stray: list[str] = []
        """What processes that failed printed outside of tests: panics and complaints of the framework among it."""

    async def tests(self, selection: str) -> list[str]:
        """The tests of the suite that the expression selects, in the order in which they are to be begun."""
        listing = await asyncio.create_subprocess_exec(
            *(str(self._binaries.suite), f"-test.list={selection}"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._environment,
        )
        told, complaint = await listing.communicate()
        if listing.returncode != 0:
            raise NotListed(f"the suite did not say which tests it has:\n{complaint.decode(errors='replace')[-2000:]}")
        return in_order(told.decode().split())

    async def run(self, tests: Sequence[str], steps: str = "") -> None:
        """Runs the tests, or of each the steps that match."""
        self._images.write_text(yaml.safe_dump(self._binaries.produced()))
        waiting = list(reversed(tests))
        with (self._folder / "suite.jsonl").open("ab") as kept:

            async def work() -> None:
                while waiting:
                    await self._run(waiting.pop(), steps, kept)

            async with asyncio.TaskGroup() as group:
                reminder = group.create_task(self._remind())
                workers = [group.create_task(work()) for _ in range(AT_ONCE)]
                await asyncio.wait(workers)
                reminder.cancel()

    async def _run(self, test: str, steps: str, kept: BinaryIO) -> None:
        """One test in a process of its own, which ends with this one."""
        self._running.append(test)
        began, log = time.monotonic(), TestLog()
        life, held = os.pipe()
        command = tied_to_parent(command_line(self._binaries.suite, self._images, test, steps), life)
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=self._environment,
            cwd=self._folder,
            limit=LONGEST_LINE,
            pass_fds=(life,),
            start_new_session=True,
        )
        try:
            assert process.stdout is not None
            async for line in process.stdout:
                kept.write(line)
                if ended := log.read(line):
                    self._tell(ended)
            await process.wait()
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
            os.close(life)
            os.close(held)
            self._running.remove(test)
        if process.returncode:
            self.stray += log.stray
        for cut_off in log.close(time.monotonic() - began):
            self._tell(cut_off)

    def _tell(self, ended: Ended) -> None:
        self.ended.append(ended)
        self._heard = time.monotonic()
        outcomes = [one.outcome for one in self.ended]
        so_far = f"{outcomes.count('passed')} passed, {outcomes.count('failed')} failed"
        self._say(f"{self._clock()}  {ended.outcome:<8}{ended.test}  {ended.seconds:.0f} s  ({so_far})")

    async def _remind(self) -> None:
        while True:
            await asyncio.sleep(QUIET_SECONDS)
            if time.monotonic() - self._heard >= QUIET_SECONDS:
                self._say(f"{self._clock()}  …       {', '.join(self._running)}")

    def _clock(self) -> str:
        minutes, seconds = divmod(int(time.monotonic() - self._began), 60)
        return f"{minutes:3}:{seconds:02}"


def in_order(tests: Sequence[str]) -> list[str]:
    """The longest first."""
    return sorted(tests, key=lambda test: test not in FIRST)


def command_line(suite: Path, images: Path, test: str, steps: str = "") -> list[str]:
    """One test through test2json, which starts it."""
    return [
        *(shutil.which("go") or "go", "tool", "test2json", "-t", "-p", SUITE),
        *(str(suite), "-test.v=test2json", f"-test.timeout={MOST_MINUTES}m"),
        # With a single processor Go begins the steps that wait for their turn with the first.
        *(("-test.parallel=1", "-test.cpu=1") if test in ONE_AFTER_ANOTHER else (f"-test.parallel={STEPS_AT_ONCE}",)),
        f"-test.run=^{test}$/{steps}" if steps else f"-test.run=^{test}$",
        f"--images.producer.file={images}",
        *(f"--poll.timeout={POLL_TIMEOUT}", f"--poll.interval={POLL_INTERVAL}", "--teardown.on.fail"),
    ]
