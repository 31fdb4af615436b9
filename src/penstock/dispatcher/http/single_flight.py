"""Connecting where the last attempt failed: one delivery tries, for itself and for all that come meanwhile.

A subscriber that is down would otherwise cost a refused connection for every event that is for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from penstock.contract.failure_causes import FailureCause
from penstock.dispatcher.http.address import Origin
from penstock.dispatcher.http.connection import NoAnswer, NoConnection, SubscriberConnection
from penstock.dispatcher.http.outcome import Withheld

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
                raise NoAnswer(reason, FailureCause.CONNECTION_TIMEOUT) from error
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
