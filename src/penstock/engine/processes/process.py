"""One child process: tied to the life of its parent, heard through a pipe, stopped with time to drain.

supervisor                          child
   | --- life pipe (held open) ------> |   broken: the supervisor is gone, the child ends
   | --- a byte on it ---------------> |   what the component needs is ready
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
        """The JVM that it is, or that it started."""
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
        """Tells the child that what it needs is ready."""
        with contextlib.suppress(OSError):
            os.write(self._life, b"g")

    def signal(self, number: signal.Signals) -> None:
        """Sends it a signal, if it still runs."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def wait(self) -> int:
        """The exit code, once it has ended with everything it started and its last words were read."""
        code = await self._process.wait()
        self.kill()
        await asyncio.wait(self._pumps, timeout=0.5)
        self._close()
        return code

    async def stop(self, patience: float) -> bool:
        """Asks it to end, and kills it if it does not within `patience` seconds. True if it ended by itself."""
        self.signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(self._process.wait(), patience)
            return True
        except TimeoutError:
            return False
        finally:
            self.kill()
            await self._process.wait()
            self._close()

    def kill(self) -> None:
        """Ends it and what it started in its process group, such as Spark's JVM, at once."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def _close(self) -> None:
        if self._life >= 0:
            os.close(self._life)
            self._life = -1


def tied_to_parent(command: list[str], life_fd: int) -> list[str]:
    """The command so that it ends with this process, even a killed one.

    It must be passed `life_fd`, the read end of a pipe whose other end this process holds for as long as it lives.
    """
    return [sys.executable, "-I", "-S", str(_PARENT_DEATH), str(os.getpid()), str(life_fd), *command]


async def spawn(
    name: str,
    command: list[str],
    env: dict[str, str],
    *,
    heard: Callable[[Message], None],
    logged: Callable[[str], None],
    speaks: bool,
) -> Child:
    """Starts a child in a session of its own, so that the terminal's Ctrl-C reaches the supervisor only.

    A child that `speaks` is one of ours: it is given the ends of its pipes as arguments. Any other program (a JVM) is
    tied to this process by `parent_death.py`.
    """
    loop = asyncio.get_running_loop()
    life_read, life_write = os.pipe()
    output_read, output_write = os.pipe()
    notify_read, notify_write = os.pipe()
    if speaks:
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
            pass_fds=(notify_write, life_read) if speaks else (life_read,),
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
    for fd, take in ((output_read, logged), (notify_read, lambda line: _hear(line, heard))):
        ended: asyncio.Future[None] = loop.create_future()
        await loop.connect_read_pipe(lambda take=take, ended=ended: _Lines(take, ended), os.fdopen(fd, "rb"))  # type: ignore[misc]
        pumps.append(ended)
    return Child(name, process, life_write, pumps)


def _hear(line: str, heard: Callable[[Message], None]) -> None:
    try:
        message = json.loads(line)
    except ValueError:
        return
    if isinstance(message, dict):
        heard(message)


def _created(pid: int) -> float | None:
    try:
        return float(psutil.Process(pid).create_time())
    except psutil.Error:
        return None


class _Lines(asyncio.Protocol):
    """Cuts what comes out of a pipe into lines."""

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
