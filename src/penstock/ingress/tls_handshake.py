"""TLS handshakes, with a limit on how many are pending.

`loop.create_server` would do the handshakes itself without showing those that are pending: clients that never complete
one could hold any number of open files. Here they are counted.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable

import structlog

from penstock.runtime.tasks import TaskScope

HANDSHAKE_SECONDS = 10.0
"""Time for the handshake."""
SHUTDOWN_SECONDS = 2.0
"""Time for the client to confirm the end of the TLS connection."""
_PAUSE_SECONDS = 0.1

log = structlog.get_logger()


class TlsAcceptor:
    """Accepts connections, completes the TLS handshake, and hands them to their protocol."""

    def __init__(
        self, tls: ssl.SSLContext, protocol: Callable[[], asyncio.Protocol], capacity: Callable[[], int]
    ) -> None:
        self._tls, self._protocol, self._capacity = tls, protocol, capacity
        self.handshakes: set[asyncio.Task[None]] = set()
        """Those that are pending."""
        self._listening: socket.socket | None = None
        self._accepting: asyncio.Task[object] | None = None

    def start(self, listening: socket.socket, backlog: int, scope: TaskScope) -> None:
        """Begins to accept."""
        listening.listen(backlog)
        self._listening = listening
        self._accepting = scope.start(self._accept(listening), "connections over TLS")

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(listening)
            except OSError as error:  # no open files are left, or the client is gone already
                log.warning("a connection could not be accepted", error=str(error))
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            if self._capacity() <= len(self.handshakes):
                accepted.close()
                continue
            task = loop.create_task(self._handshake(accepted), name="TLS")
            self.handshakes.add(task)
            task.add_done_callback(self.handshakes.discard)

    async def end(self) -> None:
        """Accepts no more, and cancels pending handshakes."""
        tasks = [task for task in (self._accepting, *self.handshakes) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._listening is not None:
            self._listening.close()

    async def _handshake(self, accepted: socket.socket) -> None:
        accepted.setblocking(False)
        try:
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await asyncio.get_running_loop().connect_accepted_socket(
                self._protocol,
                accepted,
                ssl=self._tls,
                ssl_handshake_timeout=HANDSHAKE_SECONDS,
                ssl_shutdown_timeout=SHUTDOWN_SECONDS,
            )
        except (
            OSError,
            asyncio.CancelledError,
        ):  # ssl.SSLError is an OSError: the client gets the TLS alert and nothing else
            accepted.close()
        except Exception:  # a defect that one client triggers must not end the connections of others
            log.exception("a TLS handshake failed unexpectedly")
            accepted.close()
