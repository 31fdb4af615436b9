"""A built-in program as a process of its own, and the node's end of the connection to it.

The program gets the Pod's environment over that connection and not as variables of its process, so that variables such
as `LD_PRELOAD` and `PYTHONPATH` do not affect the interpreter. Its calls are defined in `node_line`; they only concern
its own Pod.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec
import structlog

from penstock.contract.names import NothingThere, service_host, service_names
from penstock.destinations import Destinations
from penstock.observability.logs import describe
from penstock.sources.targets import Refused, targets_of
from penstock.web.certificates import KeyPair
from penstock.web.tls_server import NoCertificate
from penstock.workloads.actors.node_line import LONGEST_LINE, Call, Reach, Reply, Start
from penstock.workloads.actors.shown_certificate import Pair
from penstock.workloads.images import Exit
from penstock.workloads.kubernetes import Manifest, PodApi
from penstock.workloads.processes.process import Launch, LocalProcess
from penstock.workloads.proxy import Locate, locate_for

REASON = "CloudEventObserved"
MOST_LOOKUPS = 4
"""Concurrent DNS lookups for all programs: each takes a thread."""

MakeCertificate = Callable[[datetime], KeyPair]
"""Raises NoCertificate."""

_SERVICE = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True)
class ActorServices:
    """Services of the node for built-in programs."""

    api: PodApi
    locate: Locate
    destinations: Destinations
    trusted: Callable[[], str]
    """The current trust bundles, in PEM."""
    certificate: Callable[[Sequence[str]], MakeCertificate]
    """Creates server certificates for these names."""
    most_bytes: int
    """The largest event."""
    lookups: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MOST_LOOKUPS))


class ActorCalls:
    """Handles the calls of one program."""

    def __init__(self, pod: Manifest, services: ActorServices) -> None:
        self._pod, self._services = pod, services
        self._certificates: dict[str, MakeCertificate] = {}

    async def answer(self, call: Call) -> Reply:
        """The reply to a call; errors are replies, too."""
        try:
            return Reply(call.number, await self._result(call))
        except (Refused, NothingThere, NoCertificate) as refusal:
            return Reply(call.number, error=str(refusal))
        except Exception as error:  # any error that an untrusted program causes is sent back to it
            return Reply(call.number, error=describe(error))

    async def _result(self, call: Call) -> Any:
        """The result of a call. Raises Refused, NothingThere, NoCertificate, or errors of the API."""
        services, asked = self._services, call.arguments
        match call.name:
            case "locate":
                return await self._locate(asked["url"])
            case "review":
                return await services.api.review(asked["token"], asked["audience"])
            case "record":
                name, message, component = asked["name"], asked["message"], asked["component"]
                return await services.api.record(
                    self._pod, name=name, reason=REASON, message=message, component=component
                )
            case "certificate":
                return await self._certificate(asked["service"])
        raise Refused(f"there is no call {call.name}")

    async def _locate(self, url: str) -> Reach:
        namespace = self._pod["metadata"]["namespace"]
        location = locate_for(self._services.locate, url, namespace)
        async with self._services.lookups:
            targets = await targets_of(location, self._services.destinations, namespace)
        return Reach(targets, self._services.trusted() if url.startswith("https:") else "")

    async def _certificate(self, service: str) -> Pair:
        # Users of a namespace may only get certificates for its Services: the name has no dot, and of the resulting
        # host names the short ones, which could be hosts elsewhere, are excluded.
        if _SERVICE.fullmatch(service) is None:
            raise Refused(f'"{service}" is not the name of a Service')
        if service not in self._certificates:
            names = service_names(service_host(service, self._pod["metadata"]["namespace"]))[:2]
            self._certificates[service] = self._services.certificate(names)
        pair = await asyncio.to_thread(self._certificates[service], datetime.now(UTC))
        return Pair(pair.certificate.decode(), pair.key.decode())


MOST_CALLS = 16
"""Concurrent calls of a program."""

LAST_WORDS_SECONDS = 10.0
"""Limit for reading the last messages of a program that has ended."""

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
            # Its last messages may not be read yet.
            await asyncio.wait({serving}, timeout=LAST_WORDS_SECONDS)
        finally:
            theirs.close()
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
        return Exit(ended.code, self._message or ended.message)

    async def _serve(self, line: socket.socket, ready: Callable[[], None]) -> None:
        """Starts the program and handles its calls until it has ended."""
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
            log.warning("stopping a built-in program that sent an invalid message", error=describe(error))
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
