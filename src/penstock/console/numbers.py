"""Live numbers of all routes for all open pages; while no page is open, the metrics are not read.

One sample of the metrics serves every page. Sampling costs processor time that deliveries could use: if it takes long,
as with thousands of routes, there are fewer samples.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field

from penstock.operations.metrics_client import Counted, counted_at, counting_in
from penstock.operations.route_rates import RouteName, RouteRow, TargetName, TargetRow, rows_of, target_rows_of
from penstock.operations.stack_state import METRICS
from penstock.settings import Settings

EVERY_SECONDS = 2.0
SHARE = 20
"""The pause after a sample is so many times as long as sampling took: it uses 5 % of a core at most."""
KEPT_SECONDS = 900.0
POINT_SECONDS = 5.0
"""Between two points of a chart."""
FIELDS = 6
"""Numbers of a point: moment, deliveries and failures per second, p50 and p99 in seconds, lag."""

Sample = Callable[[], Counted]


@dataclass(frozen=True)
class Frame:
    """What the routes did between the last two samples."""

    number: int
    at: float
    """Unix time."""
    rows: Mapping[RouteName, RouteRow] = field(default_factory=dict)
    targets: Mapping[TargetName, TargetRow] = field(default_factory=dict)
    problem: str | None = None
    """Why there are no numbers."""


NOTHING = Frame(0, 0.0)


def source_of(settings: Settings) -> Sample | None:
    """Reads the metrics from the URLs of the settings, otherwise from the data folder; None if metrics are off."""
    if settings.console_metrics:
        urls = tuple(settings.console_metrics)
        return lambda: counted_at(urls, settings.tls_ca_file)
    if not settings.metrics:
        return None
    return counting_in(settings.data_dir / METRICS)


class Numbers:
    """Samples the metrics while a page is open."""

    def __init__(
        self, sample: Sample | None, stopping: asyncio.Event, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._sample, self._stopping, self._clock = sample, stopping, clock
        self._turn = asyncio.Lock()
        self._counted: Counted | None = None
        self._sampled, self._due = 0.0, 0.0
        self.frame = NOTHING
        self.past = Past()

    async def frames(self) -> AsyncIterator[Frame]:
        """Each new frame, until the console stops; the last one at once, if it is fresh."""
        number = 0
        while not self._stopping.is_set():
            frame = await self.after(number)
            if frame.number > number:
                number = frame.number
                yield frame

    async def after(self, number: int) -> Frame:
        """The first frame after the one of this number. The first caller samples; the others get its result."""
        async with self._turn:
            if self.frame.number > number and self._clock() < self._due + EVERY_SECONDS:
                return self.frame
            await self._wait(self._due - self._clock())
            if not self._stopping.is_set():
                await self._take()
            return self.frame

    async def _wait(self, seconds: float) -> None:
        if seconds > 0:
            try:
                await asyncio.wait_for(self._stopping.wait(), seconds)
            except TimeoutError:
                return

    async def _take(self) -> None:
        began = self._clock()
        counted, problem = await asyncio.to_thread(self._counting)
        now = self._clock()
        self._due = now + max(EVERY_SECONDS, SHARE * (now - began))
        number = self.frame.number + 1
        if counted is None:
            self.frame = Frame(number, time.time(), problem=problem)
            return
        # After a pause without readers, the rates since then say nothing about the present.
        before = self._counted if now - self._sampled < 30 else None
        seconds = max(0.001, now - self._sampled)
        self._counted, self._sampled = counted, now
        if before is None:
            before, seconds = counted, 1.0
        self.frame = Frame(
            number,
            time.time(),
            {row.route: row for row in rows_of(before.routes, counted.routes, seconds)},
            target_rows_of(before.targets, counted.targets, seconds),
        )
        self.past.add(self.frame)

    def _counting(self) -> tuple[Counted | None, str]:
        from penstock.runtime.errors import UserError

        if self._sample is None:
            return None, "Metrics are off (setting metrics): only the status of objects is shown."
        try:
            return self._sample(), ""
        except UserError as problem:
            return None, str(problem)


class Past:
    """The last quarter of an hour of every route that did anything, kept in memory while a page is open."""

    def __init__(self) -> None:
        self._points: dict[RouteName, array[float]] = {}
        self._last = 0.0

    def add(self, frame: Frame) -> None:
        """Adds a point for each active route."""
        if frame.at - self._last < POINT_SECONDS:
            return
        self._last = frame.at
        for name, row in frame.rows.items():
            points = self._points.get(name)
            if points is None:
                if not (row.rate or row.failures or row.lag):
                    continue
                points = self._points[name] = array("d")
            unknown = float("nan")
            p50, p99 = (unknown if value is None else value for value in (row.p50, row.p99))
            points.extend((frame.at, row.rate, row.failures, p50, p99, row.lag))
            while points and points[0] < frame.at - KEPT_SECONDS:
                del points[:FIELDS]
        for name in [name for name in self._points if name not in frame.rows]:
            del self._points[name]

    def of(self, route: RouteName) -> list[tuple[float, ...]]:
        """The points of a route, the oldest first."""
        points = self._points.get(route, array("d"))
        return [tuple(points[at : at + FIELDS]) for at in range(0, len(points), FIELDS)]
