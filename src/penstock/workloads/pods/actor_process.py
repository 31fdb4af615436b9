"""A built-in program as a process of its own, and the node's end of the connection to it.

The program gets its environment over that connection and not as variables of its process: what a Pod may set
(`LD_PRELOAD`, `PYTHONPATH`, …) changes nothing for the interpreter. What it may ask for is in `node_line`.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections.abc import Callable

import msgspec
import structlog

from penstock.observability.logs import describe
from penstock.workloads.actors.node_line import LONGEST_LINE, Call, Start
from penstock.workloads.kubernetes import Manifest
from penstock.workloads.pods.actor_calls import ActorCalls, ActorServices
from penstock.workloads.processes.process import Launch, LocalProcess
from penstock.workloads.run import Exit

MOST_CALLS = 16
"""Of one program under way."""

LAST_WORDS_SECONDS = 10.0
"""For what a program said before it ended to be read, while calls of it are still under way."""

_CALLS = msgspec.json.Decoder(Call)

log = structlog.get_logger()


class ActorProcess:
    """One run of a container with a built-in program."""

    COMMAND = (sys.executable, "-I", "-m", "penstock.workloads.actors")

    def __init__(self, pod: Manifest, start: Start, launch: Launch, services: ActorServices) -> None:
        self._start, self._calls = start, ActorCalls(pod, services)
        self._process = LocalProcess(launch)
        self._message = ""

    def stop(self, grace: float) -> None:
        """See `Run`."""
        self._process.stop(grace)

    async def run(self, ready: Callable[[], None]) -> Exit:
        """Runs to its end. `ready` is called once it serves."""
        ours, theirs = socket.socketpair()
        serving = asyncio.create_task(self._serve(ours, ready))
        try:
            ended = await self._process.run(theirs.close, theirs.fileno())
            theirs.close()
            # What it said last may not be read yet.
            await asyncio.wait({serving}, timeout=LAST_WORDS_SECONDS)
        finally:
            theirs.close()
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
        return Exit(ended.code, self._message or ended.message)

    async def _serve(self, line: socket.socket, ready: Callable[[], None]) -> None:
        """Starts the program and answers its calls until it is gone."""
        reader, writer = await asyncio.open_connection(sock=line, limit=LONGEST_LINE)
        turns, calls = asyncio.Semaphore(MOST_CALLS), set[asyncio.Task[None]]()
        try:
            writer.write(msgspec.json.encode(self._start) + b"\n")
            while said := await reader.readline():
                call = _CALLS.decode(said)
                if call.name == "ready":
                    ready()
                elif call.name == "ended":
                    self._message = call.arguments["message"]
                else:
                    await turns.acquire()
                    task = asyncio.create_task(self._answer(call, writer))
                    calls.add(task)
                    task.add_done_callback(calls.discard)
                    task.add_done_callback(lambda _: turns.release())
        except ConnectionError:
            return  # it has ended
        except (ValueError, KeyError) as error:
            log.warning("a built-in program cannot be understood and is stopped", error=describe(error))
            self.stop(0)
        finally:
            for task in calls:
                task.cancel()
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _answer(self, call: Call, writer: asyncio.StreamWriter) -> None:
        reply = await self._calls.answer(call)
        with contextlib.suppress(ConnectionError):
            writer.write(msgspec.json.encode(reply) + b"\n")
            await writer.drain()
