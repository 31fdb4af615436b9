"""Base class of built-in programs that serve HTTP at their Pod's ports."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from penstock.runtime.lifecycle import first
from penstock.workloads.actors.node_line import NodeRefused
from penstock.workloads.actors.shown_certificate import ShownCertificate
from penstock.workloads.images import Exit, Stoppable
from penstock.workloads.server import PortTaken, TakeListener, serving

PORT, TLS_PORT = 8080, 8443
"""As in the images."""


class HttpActor(Stoppable, ABC):
    """A program that serves HTTP requests."""

    def __init__(self, take_listener: TakeListener, tls: ShownCertificate | None = None, *, plain: bool = True) -> None:
        """`tls` adds a port with TLS; `plain` is whether there is a port without."""
        super().__init__()
        self._take_listener, self._tls = take_listener, tls
        self._ports = ({PORT: None} if plain else {}) | ({TLS_PORT: tls.context} if tls is not None else {})

    async def run(self, ready: Callable[[], None]) -> Exit:
        """See `Run`."""
        async with contextlib.AsyncExitStack() as running:
            running.push_async_callback(self.close)
            problem = await self.prepare()
            if problem is not None:
                return Exit(1, problem)
            try:
                if self._tls is not None:
                    await self._tls.look()
                served = serving(self._app, self._ports, self._take_listener, lambda: self._grace)
                await running.enter_async_context(served)
            except (NodeRefused, PortTaken) as error:
                return Exit(1, str(error))
            ready()
            await first(self._stop.wait(), *(() if self._tls is None else (self._tls.run(),)))
        return Exit(0)

    async def prepare(self) -> str | None:
        """Called before the first request; returns why the program cannot run, or None."""
        return None

    @abstractmethod
    async def answer(self, request: Request) -> Response:
        """The response to a request."""

    async def close(self) -> None:
        """Called after the last request, or if it cannot run."""
        return

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            response = await self.answer(Request(scope, receive))
            await response(scope, receive, send)
