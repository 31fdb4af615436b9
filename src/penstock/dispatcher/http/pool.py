"""Connections kept for the next request to the same origin. How many there are is bounded by the requests under way."""

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

# Connecting where the last attempt failed: one delivery tries, for itself and for all that come meanwhile. A
# subscriber that is down would otherwise cost a refused connection for every event that is for it.

REMEMBERED = 4096
"""Deserted origins that are remembered; beyond that the oldest is looked at afresh by everybody."""


class SingleFlight:
    """Makes connections, each for the one who asks; a failure is told to all who wait."""

    def __init__(self, connect: Callable[[Origin, float], Awaitable[SubscriberConnection]]) -> None:
        self._connect = connect
        self._loop = asyncio.get_running_loop()
        self._deserted: dict[Origin, None] = {}
        self._looks: dict[Origin, asyncio.Future[NoConnection | Withheld | None]] = {}
        """What those who look will tell: why there is no connection, or nothing if they did not find out."""

    async def connect(self, origin: Origin, seconds: float) -> SubscriberConnection:
        """A new connection. Raises what the given one raises, NoConnection and Withheld also where another tried."""
        if origin not in self._deserted:
            return await self._try(origin, seconds)
        deadline = self._loop.time() + seconds
        while (look := self._looks.get(origin)) is not None:
            try:
                async with asyncio.timeout_at(deadline):
                    failure = await asyncio.shield(look)
            except TimeoutError as error:
                reason = f"no connection to {origin} within {seconds:g} s"
                raise NoResponse(reason, FailureCause.CONNECTION_TIMEOUT) from error
            if failure is not None:
                raise type(failure)(str(failure), failure.cause)
        connect = self._look if origin in self._deserted else self._try
        return await connect(origin, max(0.0, deadline - self._loop.time()))

    async def _look(self, origin: Origin, seconds: float) -> SubscriberConnection:
        look = self._looks[origin] = self._loop.create_future()
        failure: NoConnection | Withheld | None = None
        try:
            return await self._try(origin, seconds)
        except (NoConnection, Withheld) as problem:
            failure = problem
            raise
        finally:
            del self._looks[origin]
            look.set_result(failure)

    async def _try(self, origin: Origin, seconds: float) -> SubscriberConnection:
        try:
            connection = await self._connect(origin, seconds)
        except NoConnection:
            self._deserted[origin] = None
            if len(self._deserted) > REMEMBERED:
                del self._deserted[next(iter(self._deserted))]
            raise
        self._deserted.pop(origin, None)
        return connection


IDLE_SECONDS = 1.5
"""Connections unused for this long are closed here, before the servers in common use (2 to 5 seconds) close them: a
request that crosses such a close would fail for nothing."""
SWEEP_SECONDS = 0.5
MAX_AGE_SECONDS = 60.0
"""No connection is used for longer, however busy it is: what DNS says of its name, the Pods of a Service and the trust
bundles may be others by now. Each ends up to a quarter of that sooner, so that not all are made anew at once."""
CONNECT_SECONDS = 10.0
EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""What the system says where this process or machine has no file or memory for another connection."""


class Pool:
    """All connections of a task."""

    def __init__(self, event_limit: int, destinations: Destinations, scope: TaskScope) -> None:
        self._event_limit, self._destinations, self._scope = event_limit, destinations, scope
        self._loop = asyncio.get_running_loop()
        self._idle: dict[Origin, deque[SubscriberConnection]] = {}
        """Of each origin the one used last is used first, so that those not needed grow old."""
        self.trusted = ""
        """Certificates of the trust bundles, for connections from now on."""
        self._sweeping: asyncio.TimerHandle | None = None
        self._resolver = Resolver()
        self._single_flight = SingleFlight(self._open)

    def idle(self, origin: Origin) -> SubscriberConnection | None:
        """A connection that waits for a request."""
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
            # Each gets its share of the time that is left: the first may be unreachable from here.
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
        unsure = isinstance(problem, TimeoutError)
        kind = NoResponse if unsure else NoConnection
        raise kind(f"no connection to {origin}: {problem}", cause_of(problem)) from problem

    def _tls_to(self, origin: Origin) -> ssl.SSLContext:
        try:
            return tls_to(origin.ca_certs, origin.certificate, self.trusted)
        except ValueError as error:
            raise Withheld(f"no connection to {origin}: {error}", FailureCause.CACERTS_UNREADABLE) from error

    def _allowed(self, origin: Origin, addresses: list[str]) -> list[str]:
        """Those of the addresses that events may go to. Raises NoConnection where it is none of them."""
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
        """Closes what is idle. Requests under way are their owners' to cancel."""
        self._resolver.close()
        if self._sweeping is not None:
            self._sweeping.cancel()
        for waiting in self._idle.values():
            for connection in waiting:
                connection.abort()
        self._idle.clear()


def _is_exhausted(error: OSError, address: str) -> bool:
    """Whether this side has nothing left to connect with."""
    if error.errno == errno.EADDRNOTAVAIL:
        return (
            ":" not in address
        )  # all ports are in use; without IPv6 here the system says the same of every such address
    return error.errno in EXHAUSTED
