"""What actors have in common that answer HTTP at their Pod's port until they are told to stop."""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from penstock.workloads.run import Exit, Stoppable
from penstock.workloads.server import Server

PORT = 8080


class HttpActor(Stoppable, ABC):
    """A program that answers requests."""

    def __init__(self, take_listener: Callable[[], socket.socket | None]) -> None:
        super().__init__()
        self._take_listener = take_listener

    async def run(self, ready: Callable[[], None]) -> Exit:
        """See `Run`."""
        listener = self._take_listener()
        if listener is None:
            return Exit(1, f"listen tcp :{PORT}: bind: address already in use")
        problem = await self.prepare()
        if problem is not None:
            listener.close()
            return Exit(1, problem)
        server = Server(self._app, listener)
        await server.start()
        ready()
        try:
            await self._stop.wait()
        finally:
            await server.stop(self._grace)
            await self.close()
        return Exit(0)

    async def prepare(self) -> str | None:
        """Before the first request; why the program cannot run, if it cannot."""
        return None

    @abstractmethod
    async def answer(self, request: Request) -> Response:
        """The answer to one request."""

    async def close(self) -> None:
        """After the last request."""
        return

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            response = await self.answer(Request(scope, receive))
            await response(scope, receive, send)
