"""A program that is started, killed, frozen and started again, with its output in a file of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path

import psutil

from penstock.engine.processes.process import tied_to_parent

STOP_SECONDS = 60.0


class Program:
    """One program of the cluster."""

    def __init__(self, name: str, folder: Path, command: list[str]) -> None:
        self.name, self.folder, self._command = name, folder, command
        self._process: asyncio.subprocess.Process | None = None
        self._life, self._held = os.pipe()  # the end that is held closes with this process, never before

    @property
    def runs(self) -> bool:
        """Whether it does."""
        return self._process is not None and self._process.returncode is None

    @property
    def output(self) -> Path:
        """What it has printed in all its lives."""
        return self.folder / "output.log"

    async def start(self) -> None:
        """Starts it; does not wait until it serves."""
        self.folder.mkdir(parents=True, exist_ok=True)
        env = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
        with self.output.open("ab") as output:
            self._process = await asyncio.create_subprocess_exec(
                *tied_to_parent(self._command, self._life),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**env, "NO_COLOR": "1", "PYTHONUNBUFFERED": "1"},
                pass_fds=(self._life,),
                cwd=self.folder,
            )

    async def ended(self, seconds: float) -> int | None:
        """The exit code, once it has ended; None if it does not within so long."""
        assert self._process is not None
        try:
            return await asyncio.wait_for(self._process.wait(), seconds)
        except TimeoutError:
            return None

    def send(self, signum: signal.Signals) -> None:
        """Sends it a signal."""
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signum)

    def whole(self) -> list[psutil.Process]:
        """It and everything that it has started."""
        if self._process is None:
            return []
        with contextlib.suppress(psutil.NoSuchProcess):
            first = psutil.Process(self._process.pid)
            return [first, *first.children(recursive=True)]
        return []

    def freeze(self) -> list[psutil.Process]:
        """Stops it and everything that it has started, as a machine that hangs would; what was stopped."""
        assert self._process is not None
        whole = psutil.Process(self._process.pid)
        frozen = [whole, *whole.children(recursive=True)]
        for one in frozen:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.suspend()
        return frozen

    def freeze_alone(self) -> list[psutil.Process]:
        """Stops it and nothing else; what was stopped."""
        assert self._process is not None
        alone = psutil.Process(self._process.pid)
        alone.suspend()
        return [alone]

    async def stop(self) -> None:
        """Ends it in order, or by force where that takes too long."""
        if self.runs:
            self.send(signal.SIGTERM)
            if await self.ended(STOP_SECONDS) is None:
                self.send(signal.SIGKILL)
                await self.ended(STOP_SECONDS)


def thaw(frozen: list[psutil.Process]) -> None:
    """Lets go on what was frozen."""
    for one in frozen:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.resume()
