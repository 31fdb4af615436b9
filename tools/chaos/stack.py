"""The stack that is hit: `penstock dev` on a data folder of its own, started again on it as often as need be."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from penstock.engine.datadir import read_stack
from penstock.engine.processes.process import tied_to_parent
from penstock.settings import SETTINGS_FILE

READY_SECONDS = 300
STOP_SECONDS = 60
READY = b"penstock is ready"


class NotStarted(RuntimeError):
    """The stack did not come up."""


class Stack:
    """A data folder and the supervisor that runs on it."""

    def __init__(self, folder: Path, settings: str = "") -> None:
        self.folder = folder.absolute()
        self._settings_file = settings
        """Its penstock.toml. It has one of its own, so that the one of the working directory does not count."""
        self.data = self.folder / "data"
        self.terminal = self.folder / "terminal.log"
        """What all its supervisors have printed."""
        self.environment: Mapping[str, str] = {}
        """Variables that it is started with, in addition to those of this process."""
        self._process: asyncio.subprocess.Process | None = None
        self._printed = 0
        """The length of `terminal` when the supervisor of now was started."""
        self._life, self._held = os.pipe()
        self._settings: dict[str, Any] = {}
        self._settings_written = 0

    async def start(self) -> None:
        """Starts the supervisor; does not wait for it. To be called in the main thread, with whose end it is killed."""
        command = [str(Path(sys.executable).with_name("penstock")), "dev", "--port", "0", "--data-dir", str(self.data)]
        tied = tied_to_parent(command, self._life)
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / SETTINGS_FILE).write_text(self._settings_file)
        self._printed = self.terminal.stat().st_size if self.terminal.exists() else 0
        env = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
        with self.terminal.open("ab") as output:
            self._process = await asyncio.create_subprocess_exec(
                *tied,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**env, **self.environment, "NO_COLOR": "1", "PYTHONUNBUFFERED": "1"},
                pass_fds=(self._life,),
                cwd=self.folder,
            )

    async def ready(self) -> None:
        """Waits until the stack says that it is. Raises NotStarted if it ends or takes too long."""
        try:
            async with asyncio.timeout(READY_SECONDS):
                while READY not in self.printed():
                    if not self.runs:
                        raise NotStarted(f"the stack ended before it was ready:\n{self.printed().decode()[-3000:]}")
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise NotStarted(f"the stack is not ready after {READY_SECONDS} s:\n{self.printed().decode()}") from None

    def printed(self) -> bytes:
        """What the supervisor of now has printed."""
        with self.terminal.open("rb") as output:
            output.seek(self._printed)
            return output.read()

    @property
    def runs(self) -> bool:
        """Whether the supervisor does."""
        return self._process is not None and self._process.returncode is None

    @property
    def pid(self) -> int:
        """Of the supervisor."""
        assert self._process is not None
        return self._process.pid

    async def ended(self) -> int:
        """The exit code of the supervisor, once it has ended."""
        assert self._process is not None
        return await self._process.wait()

    @property
    def record(self) -> dict[str, Any]:
        """What runs now, as the supervisor of now has written it down; empty where it has not yet."""
        record = read_stack(self.data) or {}
        return record if record.get("pid") == self.pid else {}

    @property
    def settings(self) -> dict[str, Any]:
        """The resolved settings; those of the supervisor before until the one of now has chosen its ports."""
        path = self.data / "run/settings.json"
        try:
            written = path.stat().st_mtime_ns
            if written != self._settings_written:
                self._settings, self._settings_written = json.loads(path.read_bytes()), written
        except (OSError, ValueError):
            if not self._settings:
                raise
            # Its disk is away, or has lost what was written last: those of before hold until the next are written.
        return self._settings

    @property
    def ingress_url(self) -> str:
        """Where events are accepted."""
        return f"http://127.0.0.1:{self.settings['port']}"

    @property
    def kubeconfig(self) -> Path:
        """How the API is reached."""
        return self.data / "kubeconfig"

    async def stop(self) -> None:
        """Ends the stack in order, or by force where that takes too long."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(psutil.Error):
                psutil.Process(self._process.pid).resume()
            self._process.send_signal(signal.SIGINT)
            try:
                await asyncio.wait_for(self._process.wait(), STOP_SECONDS)
            except TimeoutError:
                self._process.kill()
                await self._process.wait()
