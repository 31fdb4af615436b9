"""A program that is started, killed, frozen and started again, with its output in a file of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil

from penstock.engine.processes.process import tied_to_parent

STOP_SECONDS = 60.0

_HELD: list[int] = []


@contextlib.contextmanager
def tied(command: list[str]) -> Iterator[tuple[list[str], tuple[int]]]:
    """The command so that it ends with this process, even a killed one, and what it must be passed."""
    life, held = os.pipe()  # the end that is held closes with this process, never before
    _HELD.append(held)
    try:
        yield tied_to_parent(command, life), (life,)
    finally:
        os.close(life)


class Program:
    """One program of the cluster."""

    def __init__(self, name: str, folder: Path, command: list[str], variables: Mapping[str, str] | None = None) -> None:
        self.name, self.folder, self._command, self.variables = name, folder, command, dict(variables or {})
        self._process: asyncio.subprocess.Process | None = None

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
        with self.output.open("ab") as output, tied(self._command) as (command, fds):
            self._process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**env, "NO_COLOR": "1", "PYTHONUNBUFFERED": "1", **self.variables},
                pass_fds=fds,
                cwd=self.folder,
            )

    def last_words(self, lines: int = 15) -> str:
        """The end of what it has printed."""
        if not self.output.exists():
            return ""
        return "\n".join(self.output.read_text(errors="replace").splitlines()[-lines:])

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
        return freeze(self.whole())

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


def freeze(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Stops them; what was stopped."""
    for one in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.suspend()
    return processes


def thaw(frozen: list[psutil.Process]) -> None:
    """Lets go on what was frozen."""
    for one in frozen:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.resume()
