"""The state of the pages about events: history, live events and backtests; and the Brokers and channels by uid."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from starlette.requests import Request

from penstock.console.console import console_of
from penstock.console.events.archive import MOST_RECORDS, Archive
from penstock.console.events.backtests import Backtests
from penstock.console.events.tails import Tails
from penstock.history.reader.history import History
from penstock.kafka.live import following
from penstock.kafka.ranges import RangeReader
from penstock.kube.kinds import Obj
from penstock.operations.cluster_api import BROKERS, IN_MEMORY_CHANNELS, ClusterApi
from penstock.operations.sending import SendingAddress, address_in
from penstock.settings import Settings


class EventsState:
    """Opened with the console, and closed with it. Expensive parts start on the first request for them."""

    def __init__(self, settings: Settings, stopping: asyncio.Event) -> None:
        self.settings = settings
        self.archive = Archive(lambda: History(settings, RangeReader, MOST_RECORDS))
        self.tails = Tails(lambda *topics: following(settings, *topics), stopping)
        self.backtests = Backtests(settings)

    async def close(self) -> None:
        """Gives everything back."""
        await self.backtests.close()
        await self.tails.close()
        await self.archive.close()


def events_state(request: Request) -> EventsState:
    """The state of the pages about events, for operators only. Raises OperatorsOnly."""
    console_of(request).only_operators(request)
    state: EventsState = request.app.state.events
    return state


@dataclass(frozen=True)
class AcceptingTarget:
    """A Broker or channel that accepts events."""

    uid: str
    kind: str
    namespace: str
    name: str
    address: SendingAddress

    @property
    def label(self) -> str:
        """Its name for people."""
        return f"{'broker' if self.kind == 'Broker' else 'channel'} {self.namespace}/{self.name}"


def place_of(obj: Obj) -> AcceptingTarget:
    """The place behind an object."""
    metadata = obj["metadata"]
    return AcceptingTarget(metadata["uid"], obj["kind"], metadata["namespace"], metadata["name"], address_in(obj))


def places_of(api: ClusterApi) -> dict[str, AcceptingTarget]:
    """All of them, by uid. Blocks."""
    objects: Iterable[Obj] = [obj for kind in (BROKERS, IN_MEMORY_CHANNELS) for obj in api.all(kind)]
    return {place.uid: place for place in sorted(map(place_of, objects), key=lambda place: place.label)}
