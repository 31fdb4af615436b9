"""A child process that ends with its parent, reports through a pipe, and is stopped with time to drain.

supervisor                          child
   | --- life pipe (held open) ------> |   broken: the supervisor is gone, the child ends
   | --- a byte on it ---------------> |   the dependencies of the component are ready
   | <-- notify: JSON lines ---------- |   ready, status, news, fail
   | <-- output: log lines ----------- |
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

_PARENT_DEATH = Path(__file__).with_name("parent_death.py")
LONGEST_LINE = 256 * 1024

Message = dict[str, Any]


class Child:
    """A running child process."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, life: int, pumps: list[asyncio.Future[None]]):
        self.name = name
        self.pid = process.pid
        self.created = _created(process.pid)
        self._process, self._life, self._pumps = process, life, pumps

    def java_pid(self) -> int | None:
        """The pid of its JVM: the process itself, or one below it."""
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(self.pid)
            for one in (process, *process.children(recursive=True)):
                if one.name() == "java":
                    return one.pid
        return None

    @property
    def code(self) -> int | None:
        """The exit code; None while it runs."""
        return self._process.returncode

    def release(self) -> None:
        """Tells the child that its dependencies are ready."""
        with contextlib.suppress(OSError):
            os.write(self._life, b"g")

    def signal(self, number: signal.Signals) -> None:
        """Sends it a signal, if it still runs."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def wait(self) -> int:
        """Waits for its end, kills its process group and reads the rest of its output; the exit code."""
        code = await self._process.wait()
        self.kill()
        await asyncio.wait(self._pumps, timeout=0.5)
        self._close()
        return code

    async def stop(self, grace: float) -> bool:
        """Sends SIGTERM, and SIGKILL after `grace` seconds. True if SIGTERM was enough."""
        self.signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(self._process.wait(), grace)
            return True
        except TimeoutError:
            return False
        finally:
            self.kill()
            await self._process.wait()
            self._close()

    def kill(self) -> None:
        """Kills its process group, such as Spark's JVM."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def _close(self) -> None:
        if self._life >= 0:
            os.close(self._life)
            self._life = -1


def tied_to_parent(command: list[str], life_fd: int) -> list[str]:
    """The command, wrapped so that it is killed when this process dies.

    It must inherit `life_fd`, the read end of a pipe whose other end stays open as long as this process lives.
    """
    return [sys.executable, "-I", "-S", str(_PARENT_DEATH), str(os.getpid()), str(life_fd), *command]


async def spawn(
    name: str,
    command: list[str],
    env: dict[str, str],
    *,
    on_message: Callable[[Message], None],
    on_line: Callable[[str], None],
    reports: bool,
) -> Child:
    """Starts a child in a new session, so that the terminal's Ctrl-C reaches only the supervisor.

    A child that `reports` is a Python component: it gets the ends of the pipes as arguments. Any other program (a JVM)
    is started through `parent_death.py`.
    """
    loop = asyncio.get_running_loop()
    life_read, life_write = os.pipe()
    output_read, output_write = os.pipe()
    notify_read, notify_write = os.pipe()
    if reports:
        argv = [*command, "--notify-fd", str(notify_write), "--life-fd", str(life_read)]
    else:
        argv = tied_to_parent(command, life_read)
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output_write,
            stderr=output_write,
            env=env,
            pass_fds=(notify_write, life_read) if reports else (life_read,),
            start_new_session=True,
        )
    except BaseException:
        for fd in (life_write, output_read, notify_read):
            os.close(fd)
        raise
    finally:
        for fd in (life_read, output_write, notify_write):
            os.close(fd)
    pumps = []
    for fd, take in ((output_read, on_line), (notify_read, lambda line: _parse_message(line, on_message))):
        ended: asyncio.Future[None] = loop.create_future()
        await loop.connect_read_pipe(lambda take=take, ended=ended: _Lines(take, ended), os.fdopen(fd, "rb"))  # type: ignore[misc]
        pumps.append(ended)
    return Child(name, process, life_write, pumps)


def _parse_message(line: str, on_message: Callable[[Message], None]) -> None:
    try:
        message = json.loads(line)
    except ValueError:
        return
    if isinstance(message, dict):
        on_message(message)


def _created(pid: int) -> float | None:
    try:
        return float(psutil.Process(pid).create_time())
    except psutil.Error:
        return None


class _Lines(asyncio.Protocol):
    """Splits the output of a pipe into lines."""

    def __init__(self, take: Callable[[str], None], ended: asyncio.Future[None]) -> None:
        self._take, self._ended = take, ended
        self._rest = b""

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > LONGEST_LINE:
            lines, self._rest = [*lines, self._rest], b""
        for line in lines:
            if line.strip():
                self._take(line.decode(errors="replace").rstrip())

    def connection_lost(self, exc: Exception | None) -> None:
        if self._rest.strip():
            self._take(self._rest.decode(errors="replace").rstrip())
        if not self._ended.done():
            self._ended.set_result(None)
