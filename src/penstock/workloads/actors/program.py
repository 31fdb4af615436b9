"""One run of a container: the receiver and the sender that its environment asks for, from start to exit code."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass

from pyreqwest.client import Client

from penstock.lifecycle import first
from penstock.workloads.actors.options import BrokenEnvironment, Options
from penstock.workloads.actors.receiver import Receiver
from penstock.workloads.actors.reporting import Reports
from penstock.workloads.actors.sender import Locate, Sender
from penstock.workloads.run import Exit, Stoppable
from penstock.workloads.server import Server

PORT = 8080
"""Port that receivers listen on, as in the images."""


@dataclass(frozen=True)
class ActorEnvironment:
    """What a program needs of its node."""

    client: Client
    locate: Locate
    reports: Reports
    take_listener: Callable[[], socket.socket | None]
    """A socket that listens at the Pod's port; None when somebody else does."""


class EventsHub(Stoppable):
    """The program behind `recordevents` and `eventshub`."""

    def __init__(self, options: Options, surroundings: ActorEnvironment) -> None:
        super().__init__()
        self._options, self._around = options, surroundings

    async def run(self, ready: Callable[[], None]) -> Exit:
        """Runs to its end. `ready` is called once it serves."""
        server = None
        name = self._options.common.name
        if self._options.receiver:
            listener = self._around.take_listener()
            if listener is None:
                return Exit(1, f"listen tcp :{PORT}: somebody else listens there, such as another container of the Pod")
            server = Server(Receiver(name, self._options.receiver, self._around.reports), listener)
            await server.start()
        ready()
        try:
            if self._options.sender is None:
                await self._stop.wait()
                return Exit(0)
            sender = Sender(name, self._options.sender, self._around.reports, self._around.client, self._around.locate)
            ended = await self._until_stopped(sender)
            if server and ended.code == 0:
                await self._stop.wait()
            return ended
        finally:
            if server:
                await server.stop(self._grace)

    async def _until_stopped(self, sender: Sender) -> Exit:
        try:
            await first(sender.run(), self._stop.wait())
        except BrokenEnvironment as broken:
            return Exit(1, str(broken))
        return Exit(143, "stopped") if self._stop.is_set() else Exit(0)
