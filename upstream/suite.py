"""One run of the suite against a stack, with progress for the one who waits."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import yaml

from penstock.engine.processes.process import tied_to_parent
from upstream.binaries import SUITE, Binaries
from upstream.testlog import TestLog

PARALLEL = 4
POLL_TIMEOUT, POLL_INTERVAL = "180s", "1s"
MOST_MINUTES = 40
"""A run that takes longer is cut off."""
QUIET_SECONDS = 20
"""After so long without a test that ended, what still runs is told."""
LONGEST_LINE = 2**26
"""Steps of a failed test dump Pods and their logs in one line."""

Say = Callable[[str], None]


class SuiteRun:
    """Runs the tests and keeps what they told."""

    def __init__(self, binaries: Binaries, kubeconfig: Path, folder: Path, say: Say) -> None:
        self._binaries, self._kubeconfig, self._folder, self._say = binaries, kubeconfig, folder, say
        self._began = time.monotonic()
        self.log = TestLog()

    async def run(self, run: str, skip: Sequence[str]) -> None:
        """Runs the tests that `run` selects, without those to skip, and keeps their results in `log`."""
        images = self._folder / "images.yaml"
        images.write_text(yaml.safe_dump(self._binaries.produced()))
        life, held = os.pipe()
        command = tied_to_parent(command_line(self._binaries.suite, images, run, skip), life)
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=self._environment(),
            cwd=self._folder,
            limit=LONGEST_LINE,
            pass_fds=(life,),
            start_new_session=True,
        )
        try:
            assert process.stdout is not None
            await self._follow(process.stdout)
            await process.wait()
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
            os.close(life)
            os.close(held)
        for ended in self.log.close(self._seconds()):
            self._say(f"{ended.test} did not end")

    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "KUBECONFIG": str(self._kubeconfig),
            "SYSTEM_NAMESPACE": "knative-eventing",
            "BROKER_CLASS": "MTChannelBasedBroker",
        }

    async def _follow(self, output: asyncio.StreamReader) -> None:
        """Reads to the end, tells what ends, and now and then what still runs."""
        with (self._folder / "suite.jsonl").open("wb") as kept:
            reading = asyncio.ensure_future(output.readline())
            try:
                while True:
                    done, _ = await asyncio.wait([reading], timeout=QUIET_SECONDS)
                    if not done:
                        self._say(f"{self._clock()}  … {', '.join(self.log.running) or 'nothing has begun'}")
                        continue
                    if not (line := reading.result()):
                        return
                    kept.write(line)
                    if ended := self.log.read(line):
                        self._say(
                            f"{self._clock()}  {ended.outcome:<8}{ended.test}  {ended.seconds:.0f} s{self._so_far()}"
                        )
                    reading = asyncio.ensure_future(output.readline())
            finally:
                reading.cancel()

    def _so_far(self) -> str:
        outcomes = [ended.outcome for ended in self.log.ended.values()]
        return f"  ({outcomes.count('passed')} passed, {outcomes.count('failed')} failed)"

    def _seconds(self) -> float:
        return time.monotonic() - self._began

    def _clock(self) -> str:
        return f"{self._seconds() // 60:3.0f}:{self._seconds() % 60:02.0f}"


def command_line(suite: Path, images: Path, run: str, skip: Sequence[str]) -> list[str]:
    """The tests through test2json, which starts them."""
    return [
        *(shutil.which("go") or "go", "tool", "test2json", "-t", "-p", SUITE),
        *(str(suite), "-test.v=test2json", f"-test.parallel={PARALLEL}", f"-test.timeout={MOST_MINUTES}m"),
        f"-test.run={run}",
        *([f"-test.skip=^({'|'.join(skip)})$"] if skip else []),
        f"--images.producer.file={images}",
        *(f"--poll.timeout={POLL_TIMEOUT}", f"--poll.interval={POLL_INTERVAL}", "--teardown.on.fail"),
    ]
