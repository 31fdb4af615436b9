"""What the pages about events share: the history, what comes, and the backtests that run."""

from __future__ import annotations

import asyncio

from starlette.requests import Request

from penstock.console.console import console_of
from penstock.console.events.archive import MOST_RECORDS, Archive
from penstock.console.events.backtests import Backtests
from penstock.console.events.tails import Tails
from penstock.history.reader.history import History
from penstock.kafka.live.reader import following
from penstock.kafka.ranges import RangeReader
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
    """What the pages about events share, for operators only. Raises NotForYou."""
    console_of(request).only_operators(request)
    state: EventsState = request.app.state.events
    return state
