"""Route changes under load: Triggers come and go, a filter changes, a route is paused and resumed.

Before a filter is replaced or a Trigger deleted, everything that was accepted under it has arrived. So it is known for
every event whether it had to arrive: those accepted between that look and the change may or may not.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

from pyreqwest.exceptions import PyreqwestError

from benchmarks import objects
from chaos import routes
from chaos.books import NEVER, Books
from chaos.checker import Era, Expected, due
from chaos.events import LEFT, SENDERS
from chaos.recovery import clock
from chaos.stack import Stack

PAUSE_SECONDS = (1.0, 5.0)
SETTLE_SECONDS = 30.0
MOST_EXTRA = 3
"""Extra Triggers at a time."""
LAGGARDS = 1000 * SENDERS
"""How far a sender may be behind the others: numbers that are looked at again when an era is settled."""

Obj = dict[str, Any]


class Changes:
    """Makes changes until told to stop, and keeps the expectations true to them."""

    def __init__(
        self, stack: Stack, books: Books, expected: list[Expected], urls: routes.Urls, chance: random.Random
    ) -> None:
        self._stack, self._books, self._expected, self._urls, self._chance = stack, books, expected, urls, chance
        self._extra: list[tuple[Obj, Expected]] = []
        self._made = 0
        self._paused = False
        self._filter = 0
        self._changing = Expected(routes.CHANGING, [Era(routes.FILTERS[0])])
        expected.append(self._changing)
        self._ending = asyncio.Event()
        self.ready_seconds: list[float] = []
        """From each creation or change of a filter to Ready."""

    def initial(self) -> list[Obj]:
        """What there is before the first event."""
        steady = [routes.manifest(route, self._urls) for route in routes.STEADY]
        return [*steady, self._trigger(routes.CHANGING, routes.FILTERS[0])]

    async def run(self) -> None:
        """One change after the other; after `stop`, nothing is paused."""
        steps: list[Callable[[], Awaitable[None]]] = [self._create, self._delete, self._change_filter, self._toggle]
        while not self._ending.is_set():
            await self._rest(self._chance.uniform(*PAUSE_SECONDS))
            await self._chance.choice(steps)()
        if self._paused:
            await self._toggle()

    def stop(self) -> None:
        """No further change."""
        self._ending.set()

    async def _create(self) -> None:
        if len(self._extra) >= MOST_EXTRA:
            return
        self._made += 1
        name, types = f"extra-{self._made}", frozenset({LEFT})
        extra, asked = self._trigger(name, types), clock()
        expected = Expected(name, [Era(types, requested=asked, in_force=NEVER)])
        self._expected.append(expected)
        await self._insist(lambda api: api.create([extra], routes.NAMESPACE))
        await self._until_ready(extra)
        expected.eras[0].in_force = clock()
        self.ready_seconds.append(clock() - asked)
        self._extra.append((extra, expected))

    async def _delete(self) -> None:
        if not self._extra or not await self._settle(self._extra[0][1]):
            return
        extra, _ = self._extra.pop(0)
        await self._insist(lambda api: api.delete([extra], routes.NAMESPACE))

    async def _change_filter(self) -> None:
        if not await self._settle(self._changing):
            return
        self._filter = 1 - self._filter
        types, before, asked = routes.FILTERS[self._filter], self._changing.eras[-1], clock()
        following = Era(types, requested=asked, in_force=NEVER)
        self._changing.eras.append(following)
        changing = self._trigger(routes.CHANGING, types)
        await self._insist(lambda api: api.patch(changing, {"spec": changing["spec"]}, routes.NAMESPACE))
        await self._until_ready(changing)
        following.in_force = before.replaced = clock()
        self.ready_seconds.append(clock() - asked)

    async def _toggle(self) -> None:
        paused = next(route for route in routes.STEADY if route.name == routes.PAUSED_ROUTE)
        obj, change = routes.manifest(paused, self._urls), routes.pause(paused=not self._paused)
        await self._insist(lambda api: api.patch(obj, change, routes.NAMESPACE))
        self._paused = not self._paused

    async def _settle(self, expected: Expected) -> bool:
        """Waits until everything accepted by now has arrived; False if that takes too long."""
        now, sent, arrivals = clock(), self._books.sent, self._books.at(expected.name)
        ending = Expected(expected.name, [Era(expected.eras[-1].types, 0, expected.eras[-1].in_force, settled=now)])
        start = max(0, len(sent.accepted) - LAGGARDS)
        missing = set(due(sent, ending, start))
        while clock() < now + SETTLE_SECONDS:
            missing = {ident for ident in missing if not arrivals.taken(ident)}
            if not missing:
                expected.eras[-1].settled = now
                return True
            await asyncio.sleep(0.2)
        return False

    async def _until_ready(self, obj: Obj) -> None:
        while True:
            found = await self._insist(lambda api: api.get(obj, routes.NAMESPACE))
            generation = found.get("metadata", {}).get("generation")
            if objects.is_ready(found) and found["status"].get("observedGeneration") == generation:
                return
            await asyncio.sleep(0.1)

    async def _insist(self, call: Callable[[objects.Api], Any]) -> Any:
        """The result of a call to the API, which may be away for a while."""
        while True:
            try:
                return await asyncio.to_thread(lambda: call(objects.Api(self._stack.kubeconfig)))
            except (PyreqwestError, RuntimeError, OSError, ValueError):
                await asyncio.sleep(0.3)

    async def _rest(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._ending.wait(), seconds)
        except TimeoutError:
            return

    def _trigger(self, name: str, types: frozenset[str]) -> Obj:
        return routes.manifest(routes.Route(name, types, filters=routes.one_of(types)), self._urls)
