"""Route changes under load: Triggers come and go, a filter changes, a route is paused and resumed.

Before a filter is replaced or a Trigger deleted, everything that was accepted under it has arrived. So it is known for
every event whether it had to arrive: those accepted between that look and the change may or may not.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pyreqwest.exceptions import PyreqwestError

from tools.benchmarks import objects
from tools.chaos import routes
from tools.chaos.books import NEVER, Books
from tools.chaos.checker import Era, Expected, due
from tools.chaos.events import LEFT, SENDERS
from tools.chaos.recovery import clock
from tools.chaos.stack import Stack

PAUSE_SECONDS = (1.0, 5.0)
SETTLE_SECONDS = 30.0
MOST_EXTRA = 3
"""Extra Triggers of a changer at a time."""
LAGGARDS = 1000 * SENDERS
"""How far a sender may be behind the others: numbers that are looked at again when an era is settled."""

Obj = dict[str, Any]


@dataclass(frozen=True)
class Pace:
    """How fast routes change."""

    changers: int = 1
    """Side by side, each with routes of its own."""
    seconds: float | None = None
    """Between two changes of all of them; None: each rests for a random time after its own."""


class Changes:
    """Makes changes until told to stop, and keeps the expectations true to them."""

    def __init__(
        self,
        stack: Stack,
        books: Books,
        expected: list[Expected],
        urls: routes.Urls,
        chance: random.Random,
        *,
        steady: Sequence[routes.Route] = routes.STEADY,
        pace: Pace = Pace(),  # noqa: B008  # frozen
    ) -> None:
        self.stack, self.books, self.expected, self.urls, self.chance = stack, books, expected, urls, chance
        self._steady, self._pace = steady, pace
        self._slot = clock()
        self._ending = asyncio.Event()
        self.paused = False
        self.made = 0
        """Changes that were asked for, and granted."""
        self.ready_seconds: list[float] = []
        """From each creation or change of a filter to Ready."""
        self._names = itertools.count(1)
        self._changers = [_Changer(self, number) for number in range(1, pace.changers + 1)]

    def initial(self) -> list[Obj]:
        """What there is before the first event."""
        steady = [routes.manifest(route, self.urls) for route in self._steady]
        return [*steady, *(changer.initial() for changer in self._changers)]

    async def run(self) -> None:
        """One change after the other; after `stop`, nothing is paused."""
        async with asyncio.TaskGroup() as tasks:
            for changer in self._changers:
                tasks.create_task(changer.run())
        if self.paused:
            await self.toggle()

    def stop(self) -> None:
        """No further change."""
        self._ending.set()

    @property
    def ended(self) -> bool:
        """Whether there is to be no further change."""
        return self._ending.is_set()

    async def rest(self) -> None:
        """Waits for the next change's turn."""
        if self._pace.seconds is None:
            await self._wait(self.chance.uniform(*PAUSE_SECONDS))
            return
        self._slot = max(clock(), self._slot + self._pace.seconds)
        await self._wait(self._slot - clock())

    async def _wait(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._ending.wait(), seconds)
        except TimeoutError:
            return

    async def toggle(self) -> None:
        """Pauses the route that is paused now and then, or resumes it."""
        toggled = next(route for route in routes.STEADY if route.name == routes.PAUSED_ROUTE)
        await self.pause(toggled, paused=not self.paused)
        self.paused = not self.paused

    async def pause(self, route: routes.Route, *, paused: bool) -> None:
        """Pauses or resumes a steady route."""
        obj, change = routes.manifest(route, self.urls), routes.pause(paused=paused)
        await self.insist(lambda api: api.patch(obj, change, routes.NAMESPACE))
        self.made += 1

    def next_name(self) -> str:
        """Of another extra Trigger."""
        return f"extra-{next(self._names)}"

    def lowest_number(self) -> int:
        """No event that is sent from now on has a lower one."""
        return max(0, len(self.books.sent.accepted) - LAGGARDS)

    async def insist(self, call: Callable[[objects.Api], Any]) -> Any:
        """The result of a call to the API, which may be away for a while."""
        while True:
            try:
                return await asyncio.to_thread(lambda: call(objects.Api(self.stack.kubeconfig)))
            except (PyreqwestError, RuntimeError, OSError, ValueError):
                await asyncio.sleep(0.3)

    async def until_ready(self, obj: Obj) -> None:
        """Waits until an object is Ready as it was asked for last."""
        while True:
            found = await self.insist(lambda api: api.get(obj, routes.NAMESPACE))
            generation = found.get("metadata", {}).get("generation")
            if objects.is_ready(found) and found["status"].get("observedGeneration") == generation:
                return
            await asyncio.sleep(0.1)


class _Changer:
    """One that changes its own routes: some that come and go, and one whose filter changes."""

    def __init__(self, changes: Changes, number: int) -> None:
        self._changes = changes
        self._extra: list[tuple[Obj, Expected]] = []
        self._filter = 0
        self._pauses = number == 1
        name = routes.CHANGING if number == 1 else f"{routes.CHANGING}-{number}"
        self._changing = Expected(name, [Era(routes.FILTERS[0])])
        changes.expected.append(self._changing)

    def initial(self) -> Obj:
        """What it begins with."""
        return self._trigger(self._changing.name, routes.FILTERS[0])

    async def run(self) -> None:
        """One change after the other."""
        steps: list[Callable[[], Awaitable[None]]] = [self._create, self._delete, self._change_filter]
        if self._pauses:
            steps.append(self._changes.toggle)
        while not self._changes.ended:
            await self._changes.rest()
            await self._changes.chance.choice(steps)()

    async def _create(self) -> None:
        if len(self._extra) >= MOST_EXTRA:
            return
        name, types = self._changes.next_name(), frozenset({LEFT})
        extra, asked = self._trigger(name, types), clock()
        era = Era(types, requested=asked, in_force=NEVER)
        expected = Expected(name, [era], start=self._changes.lowest_number())
        self._changes.expected.append(expected)
        await self._changes.insist(lambda api: api.create([extra], routes.NAMESPACE))
        await self._changes.until_ready(extra)
        era.in_force = clock()
        self._changed(asked)
        self._extra.append((extra, expected))

    async def _delete(self) -> None:
        if not self._extra or not await self._settle(self._extra[0][1]):
            return
        extra, expected = self._extra.pop(0)
        expected.end = len(self._changes.books.sent.accepted)
        await self._changes.insist(lambda api: api.delete([extra], routes.NAMESPACE))
        self._changes.made += 1

    async def _change_filter(self) -> None:
        if not await self._settle(self._changing):
            return
        self._filter = 1 - self._filter
        types, before, asked = routes.FILTERS[self._filter], self._changing.eras[-1], clock()
        following = Era(types, requested=asked, in_force=NEVER)
        self._changing.eras.append(following)
        changing = self._trigger(self._changing.name, types)
        await self._changes.insist(lambda api: api.patch(changing, {"spec": changing["spec"]}, routes.NAMESPACE))
        await self._changes.until_ready(changing)
        following.in_force = before.replaced = clock()
        self._changed(asked)

    def _changed(self, asked: float) -> None:
        self._changes.made += 1
        self._changes.ready_seconds.append(clock() - asked)

    async def _settle(self, expected: Expected) -> bool:
        """Waits until everything accepted by now has arrived; False if that takes too long."""
        now, sent, arrivals = clock(), self._changes.books.sent, self._changes.books.at(expected.name)
        ending = Expected(expected.name, [Era(expected.eras[-1].types, 0, expected.eras[-1].in_force, settled=now)])
        missing = set(due(sent, ending, self._changes.lowest_number()))
        while clock() < now + SETTLE_SECONDS:
            missing = {ident for ident in missing if not arrivals.taken(ident)}
            if not missing:
                expected.eras[-1].settled = now
                return True
            await asyncio.sleep(0.2)
        return False

    def _trigger(self, name: str, types: frozenset[str]) -> Obj:
        return routes.manifest(routes.Route(name, types, filters=routes.one_of(types)), self._changes.urls)
