"""One run of a program: started, stopped, and killed with its process group.

The program leads its own process group and writes directly to the container's log. It is stopped by SIGTERM, like the
first process of a container; when it has ended, the rest of its process group is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.workloads.images import Exit, Stoppable
from penstock.workloads.processes.command import exit_code

LAUNCHER = Path(__file__).with_name("launch.py")
START_ERROR = 128
"""Exit code of a program that could not be started."""
LAST_BYTES, LAST_LINES = 2048, 80
MARK = "POD_OF_PENSTOCK"
"""Environment variable with the data folder of the stack, by which a start finds programs of a crashed run."""


class CannotStart(Exception):
    """The program cannot be started; kubectl shows it as RunContainerError."""


@dataclass(frozen=True)
class Launch:
    """How a program is started."""

    command: Sequence[str]
    env: Mapping[str, str]
    folder: Path
    log: Path
    mounts: Sequence[tuple[Path, str]] = ()
    """(source in the data folder, target path for the program)."""
    root: Path = Path()
    """An empty folder for a new root, if the mounts need one."""
    message_from_log: bool = False
    """Whether the end of the log is the termination message (`FallbackToLogsOnError`)."""


def executable(name: str, env: Mapping[str, str], folder: Path) -> str:
    """The path of a program. Raises CannotStart."""
    found = str(folder / name) if "/" in name else shutil.which(name, path=env.get("PATH", os.defpath))
    if found is None:
        raise CannotStart(f'exec: "{name}": executable file not found in $PATH')
    if not os.path.isfile(found):
        raise CannotStart(f'exec: "{name}": stat {found}: no such file or directory')
    if not os.access(found, os.X_OK):
        raise CannotStart(f'exec: "{name}": permission denied')
    return found


class LocalProcess(Stoppable):
    """A container's process."""

    def __init__(self, launch: Launch) -> None:
        super().__init__()
        self._launch = launch
        self._program = executable(launch.command[0], launch.env, launch.folder)

    async def run(self, ready: Callable[[], None], stdin: int = asyncio.subprocess.DEVNULL) -> Exit:
        """Runs until it ends. `ready` is called when it is started."""
        try:
            process = await self._start(stdin)
        except (OSError, ValueError) as error:  # too many arguments, a NUL character, too many processes
            return Exit(START_ERROR, f"cannot start {self._launch.command[0]}: {error}")
        ready()
        ending = asyncio.create_task(process.wait())
        stopping = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait({ending, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not ending.done():
                await self._end(process, ending)
            code = exit_code(await ending)
            words = (
                await asyncio.to_thread(last_words, self._launch.log) if code and self._launch.message_from_log else ""
            )
            return Exit(code, words)
        finally:
            stopping.cancel()
            _signal_group(process.pid, signal.SIGKILL)
            await asyncio.shield(ending)

    async def _start(self, stdin: int) -> asyncio.subprocess.Process:
        launch = self._launch
        mounts = [word for source, target in launch.mounts for word in ("--mount", str(source), target)]
        options = ["--root", str(launch.root), *mounts] if mounts else []
        with launch.log.open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", str(LAUNCHER), str(os.getpid()), *options, "--", self._program),
                *launch.command,
                env=dict(launch.env),
                cwd=launch.folder,
                stdin=stdin,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    async def _end(self, process: asyncio.subprocess.Process, ending: asyncio.Task[int]) -> None:
        if self._grace > 0:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            await asyncio.wait({ending}, timeout=self._grace)
        _signal_group(process.pid, signal.SIGKILL)


def last_words(log: Path) -> str:
    """The end of a log, of the length that Kubernetes shows."""
    with log.open("rb") as file:
        file.seek(max(file.seek(0, 2) - LAST_BYTES, 0))
        lines = file.read().decode(errors="replace").splitlines()
    return "\n".join(lines[-LAST_LINES:])


def _signal_group(leader: int, signum: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signum)
