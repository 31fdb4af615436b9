"""Connections kept for the next request to the same origin. Their number is bounded by the requests in flight.

Where the last connection failed, only one delivery at a time tries to connect, for itself and for all that wait: an
unreachable subscriber would otherwise cost a refused connection for every event.
"""

from __future__ import annotations

import asyncio
import errno
import random
import socket
import ssl
from collections import deque
from collections.abc import Awaitable, Callable

from penstock.contract.attempts import FailureCause
from penstock.destinations import Destinations
from penstock.dispatcher.http.address import Origin
from penstock.dispatcher.http.connection import NoConnection, NoResponse, SubscriberConnection, cause_of
from penstock.dispatcher.http.dns import Resolver
from penstock.dispatcher.http.outcome import Withheld
from penstock.runtime.tasks import TaskScope
from penstock.web.tls_clients import tls_to

REMEMBERED = 4096
"""Unreachable origins that are remembered; beyond that the oldest is dropped."""


class SingleFlight:
    """Makes connections; to an unreachable origin one at a time, whose failure is raised in all that wait."""

    def __init__(self, connect: Callable[[Origin, float], Awaitable[SubscriberConnection]]) -> None:
        self._connect = connect
        self._loop = asyncio.get_running_loop()
        self._unreachable: dict[Origin, None] = {}
        self._probes: dict[Origin, asyncio.Future[NoConnection | Withheld | None]] = {}
        """The results of attempts to connect: the failure, or None if there was none or it is not known."""

    async def connect(self, origin: Origin, seconds: float) -> SubscriberConnection:
        """A new connection. Raises what the given function raises, or what another delivery's attempt raised."""
        if origin not in self._unreachable:
            return await self._try(origin, seconds)
        deadline = self._loop.time() + seconds
        while (probe := self._probes.get(origin)) is not None:
            try:
                async with asyncio.timeout_at(deadline):
                    failure = await asyncio.shield(probe)
            except TimeoutError as error:
                reason = f"no connection to {origin} within {seconds:g} s"
                raise NoResponse(reason, FailureCause.CONNECTION_TIMEOUT) from error
            if failure is not None:
                raise type(failure)(str(failure), failure.cause)
        connect = self._probe if origin in self._unreachable else self._try
        return await connect(origin, max(0.0, deadline - self._loop.time()))

    async def _probe(self, origin: Origin, seconds: float) -> SubscriberConnection:
        probe = self._probes[origin] = self._loop.create_future()
        failure: NoConnection | Withheld | None = None
        try:
            return await self._try(origin, seconds)
        except (NoConnection, Withheld) as problem:
            failure = problem
            raise
        finally:
            del self._probes[origin]
            probe.set_result(failure)

    async def _try(self, origin: Origin, seconds: float) -> SubscriberConnection:
        try:
            connection = await self._connect(origin, seconds)
        except NoConnection:
            self._unreachable[origin] = None
            if len(self._unreachable) > REMEMBERED:
                del self._unreachable[next(iter(self._unreachable))]
            raise
        self._unreachable.pop(origin, None)
        return connection


IDLE_SECONDS = 1.5
"""Connections unused for this long are closed here, before the servers in common use (2 to 5 seconds) close them: a
request that crosses such a close would fail without need."""
SWEEP_SECONDS = 0.5
MAX_AGE_SECONDS = 60.0
"""Maximum age of a connection, however busy it is: the DNS records of its name, the Pods of a Service and the trust
bundles may have changed. Each is closed up to a quarter of that earlier, so that not all are replaced at once."""
CONNECT_SECONDS = 10.0
EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""Errors of the system when this process or machine has no file or memory for another connection."""


class Pool:
    """All connections of a task."""

    def __init__(self, event_limit: int, destinations: Destinations, scope: TaskScope) -> None:
        self._event_limit, self._destinations, self._scope = event_limit, destinations, scope
        self._loop = asyncio.get_running_loop()
        self._idle: dict[Origin, deque[SubscriberConnection]] = {}
        """Of each origin the connection used last is used first, so that those not needed time out."""
        self.trusted = ""
        """Certificates of the trust bundles, for connections from now on."""
        self._sweeping: asyncio.TimerHandle | None = None
        self._resolver = Resolver()
        self._single_flight = SingleFlight(self._open)

    def idle(self, origin: Origin) -> SubscriberConnection | None:
        """An idle connection."""
        waiting = self._idle.get(origin)
        while waiting:
            connection = waiting.pop()
            if not connection.closed:
                if self._loop.time() - connection.idle_since < IDLE_SECONDS:
                    return connection
                connection.abort()
        return None

    async def connect(self, origin: Origin, seconds: float) -> SubscriberConnection:
        """A new connection. Raises NoResponse, or Withheld where none could be tried."""
        return await self._single_flight.connect(origin, min(seconds, CONNECT_SECONDS))

    async def _open(self, origin: Origin, seconds: float) -> SubscriberConnection:
        tls = None if origin.tls_name is None else self._tls_to(origin)
        deadline = self._loop.time() + seconds
        problem: Exception = TimeoutError(f"none within {seconds:g} s")
        try:
            async with asyncio.timeout_at(deadline):
                addresses = await self._resolver.addresses(origin.host)
        except TimeoutError as error:
            raise Withheld(f"no address of {origin} within {seconds:g} s", FailureCause.DNS_UNAVAILABLE) from error
        except (socket.gaierror, UnicodeError) as error:
            raise NoConnection(f"no connection to {origin}: {error}", FailureCause.NAME_NOT_FOUND) from error
        addresses = self._allowed(origin, addresses)
        for position, address in enumerate(addresses):
            # Each gets its share of the remaining time: the first may be unreachable from here.
            now = self._loop.time()
            share = max(0.0, deadline - now) / (len(addresses) - position)
            try:
                async with asyncio.timeout_at(now + share):
                    return await self._connect(origin, address, tls)
            except TimeoutError:
                continue
            except OSError as error:
                if _is_exhausted(error, address):
                    reason = f"no connection to {origin}: {error}"
                    raise Withheld(reason, FailureCause.OUT_OF_RESOURCES) from error
                problem = error
        self._resolver.forget(origin.host)
        kind = NoResponse if isinstance(problem, TimeoutError) else NoConnection
        raise kind(f"no connection to {origin}: {problem}", cause_of(problem)) from problem

    def _tls_to(self, origin: Origin) -> ssl.SSLContext:
        try:
            return tls_to(origin.ca_certs, origin.certificate, self.trusted)
        except ValueError as error:
            raise Withheld(f"no connection to {origin}: {error}", FailureCause.CACERTS_UNREADABLE) from error

    def _allowed(self, origin: Origin, addresses: list[str]) -> list[str]:
        """The addresses that events may be delivered to. Raises NoConnection where there is none."""
        refusals = {address: self._destinations.refusal(origin.zone, address) for address in addresses}
        allowed = [address for address, refusal in refusals.items() if refusal is None]
        if not allowed:
            refusal = next(iter(refusals.values()), None)
            cause = FailureCause.NAME_NOT_FOUND if refusal is None else FailureCause.DESTINATION_REFUSED
            raise NoConnection(f"no connection to {origin}: {refusal or 'it has no address'}", cause)
        return allowed

    async def _connect(self, origin: Origin, address: str, tls: ssl.SSLContext | None) -> SubscriberConnection:
        _, connection = await self._loop.create_connection(
            lambda: SubscriberConnection(lambda idle: self._keep(origin, idle), self._event_limit),
            address,
            origin.port,
            ssl=tls,
            server_hostname=origin.tls_name,
        )
        connection.retires_at = self._loop.time() + MAX_AGE_SECONDS * random.uniform(0.75, 1.0)  # noqa: S311
        return connection

    def _keep(self, origin: Origin, connection: SubscriberConnection) -> None:
        now = connection.idle_since = self._loop.time()
        if now >= connection.retires_at:
            connection.abort()
            return
        waiting = self._idle.get(origin)
        if waiting is None:
            waiting = self._idle[origin] = deque()
        waiting.append(connection)
        if self._sweeping is None:
            self._sweep_later()

    def _sweep(self) -> None:
        old = self._loop.time() - IDLE_SECONDS
        for origin, waiting in list(self._idle.items()):
            while waiting and (waiting[0].closed or waiting[0].idle_since < old):
                waiting.popleft().abort()
            if not waiting:
                del self._idle[origin]
        self._sweeping = None
        if self._idle:
            self._sweep_later()

    def _sweep_later(self) -> None:
        self._sweeping = self._loop.call_later(SWEEP_SECONDS, self._scope.call, self._sweep)

    def close(self) -> None:
        """Closes idle connections. Requests in flight are cancelled by their own tasks."""
        self._resolver.close()
        if self._sweeping is not None:
            self._sweeping.cancel()
        for waiting in self._idle.values():
            for connection in waiting:
                connection.abort()
        self._idle.clear()


def _is_exhausted(error: OSError, address: str) -> bool:
    """Whether this side has no resources left for a connection."""
    if error.errno == errno.EADDRNOTAVAIL:
        # All ports are in use. Without IPv6 the system reports the same error for every IPv6 address.
        return ":" not in address
    return error.errno in EXHAUSTED
