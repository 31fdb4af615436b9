"""Experiments in which retention removes events under load while routes are paused, slow and new.

A route gets them from the history, where that has them. What a route does not get must be reported as lost, and nothing
that it did get. A route that asks for the past from the earliest on gets everything from the oldest event that is kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from pyreqwest.client import ClientBuilder
from pyreqwest.exceptions import PyreqwestError

from penstock.contract import reports, topics
from penstock.contract.reports import Loss
from penstock.kafka.clients import librdkafka_options
from penstock.resources.delivery import MAX_IN_FLIGHT, START_FROM
from penstock.settings import Settings
from tools.benchmarks import objects
from tools.chaos import routes, trail
from tools.chaos.books import Books
from tools.chaos.checker import Era, Expected, Lost
from tools.chaos.events import LEFT, Id
from tools.chaos.experiments import Experiment
from tools.chaos.faults import Blow
from tools.chaos.recovery import clock
from tools.chaos.routes import HELD, Route, one_of

if TYPE_CHECKING:
    from tools.chaos.run import Run

STEADY_SECONDS = 10.0
BACKLOG_SECONDS = 20.0
"""Of load after the pause. All of it has to be removed."""
REMOVAL_SECONDS = 420.0
LOOK_SECONDS = 2.0
FILLER_BYTES = 100_000
FILLER_SECONDS = 0.1
GENTLE_SECONDS = 0.4
"""The same where there is a history, whose writer has the lowest priority: it has to write them before they go."""
FILLER = "filler"
"""A Broker, with one route, whose large events take up what is kept."""

BEHIND = Route("slow-behind", frozenset({LEFT}), filters=one_of(frozenset({LEFT})), annotations={MAX_IN_FLIGHT: "1"})
"""Takes three events a second, and so falls behind."""
LATE = Route("late", frozenset({LEFT}), filters=one_of(frozenset({LEFT})), annotations={START_FROM: "earliest"})
"""Made when events were removed."""

Place = tuple[int, int]
"""Partition and offset of `penstock.events`."""


class Retention(Experiment):
    """Small topics, and large events that push the others out."""

    routes = (HELD, BEHIND)

    def __init__(self, name: str, *, history: bool) -> None:
        self.name, self._history = name, history
        self._pause = GENTLE_SECONDS if history else FILLER_SECONDS
        kept = "with the history" if history else "without a history"
        self.what = f"retention removes events that a paused, a slow and a new route are still to get, {kept}"
        self.settings = f"retention_mib = 64\npartitions = 1\nhistory = {str(history).lower()}\n"
        self._log: Log | None = None

    async def strike(self, run: Run) -> None:
        """A pause; large events until everything from before is gone; then a new route, and the end of the pause."""
        self._log = Log(Settings(**run.stack.settings))
        reading = asyncio.create_task(self._log.follow())
        try:
            await self._strike(run, self._log)
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def _strike(self, run: Run, log: Log) -> None:
        await asyncio.sleep(STEADY_SECONDS)
        await run.changes.pause(HELD, paused=True)
        await asyncio.sleep(BACKLOG_SECONDS)
        seen: list[str] = []
        await run.step("events removed", functools.partial(self._remove, run, log, seen), lambda: "; ".join(seen))
        await self._late(run)
        await asyncio.sleep(STEADY_SECONDS)
        await run.step("the paused route resumed", functools.partial(self._resume, run))
        await asyncio.sleep(STEADY_SECONDS)

    async def _remove(self, run: Run, log: Log, seen: list[str]) -> Blow:
        """Sends large events until both logs begin behind what they held at first."""
        ends = log.ends()
        await run.changes.insist(lambda api: api.create([objects.broker(FILLER), _filled(run)], routes.NAMESPACE))
        filling = asyncio.create_task(_fill(run, self._pause))
        deadline = clock() + REMOVAL_SECONDS
        try:
            while True:
                begins = await asyncio.to_thread(log.begins)
                if all(begins[topic] >= end for topic, end in ends.items()):
                    break
                if clock() > deadline:
                    run.problem(f"retention did not remove the events within {REMOVAL_SECONDS:g} s: {begins}, {ends}")
                    break
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            filling.cancel()
            await asyncio.gather(filling, return_exceptions=True)
        seen += [
            f"{topic} ended at offset {ends[topic]:,} and now begins at {begin:,}" for topic, begin in begins.items()
        ]
        now = clock()
        return Blow(now, now)

    async def _late(self, run: Run) -> None:
        late, asked = routes.manifest(LATE, run.urls), clock()
        await run.changes.insist(lambda api: api.create([late], routes.NAMESPACE))
        await run.changes.until_ready(late)
        run.expected.append(Expected(LATE.name, [Era(LATE.types)]))
        run.say(f"          {LATE.name} was Ready after {clock() - asked:.1f} s")

    async def _resume(self, run: Run) -> Blow:
        await run.changes.pause(HELD, paused=False)
        behind = routes.manifest(BEHIND, run.urls)
        quick = {"metadata": {"annotations": {MAX_IN_FLIGHT: None}}}
        await run.changes.insist(lambda api: api.patch(behind, quick, routes.NAMESPACE))
        now = clock()
        return Blow(now, now)

    def reported(self, run: Run, lost: Iterable[Lost]) -> set[Lost]:
        """Events in the ranges that were reported, and those that were nowhere any more when a route began."""
        if self._log is None:
            return set()
        self._log.finish()
        missing, places = list(lost), self._log.places
        names = {uid: name.removeprefix("chaos-") for uid, name in trail.route_names(self._log.settings).items()}
        ranges = by_route(self._log.losses, names)
        for text in taken_all_the_same(run.books, ranges, self._log.ids):
            run.problem(text)
        found = among(missing, ranges, places)
        oldest = min(
            (where for where, ident in self._log.ids.items() if run.books.at(LATE.name).taken(ident)), default=None
        )
        gone = {one for one in missing if one.subscriber == LATE.name and older(places.get(one.id, ()), oldest)}
        run.say(
            f"          {len(found):,} deliveries reported as lost; {len(gone):,} older than what the new route got"
        )
        return found | gone


class Log:
    """Where each event of the run is in `penstock.events`, read before it is removed, and the losses reported."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.ids: dict[Place, Id] = {}
        self.losses: list[Loss] = []
        options = {"bootstrap.servers": settings.bootstrap, **librdkafka_options(settings), "group.id": "chaos"}
        quiet = {"log_level": 0, "error_cb": lambda error: None}  # the stack ends before it
        self._consumer = Consumer(
            {**options, **quiet, "enable.auto.commit": False, "isolation.level": "read_committed"}
        )
        known = self._consumer.list_topics(timeout=trail.READ_SECONDS).topics
        self._consumer.assign(
            [
                TopicPartition(topic, number, OFFSET_BEGINNING)
                for topic in (topics.EVENTS, topics.REPORTS)
                for number in known[topic].partitions
            ]
        )

    @property
    def places(self) -> dict[Id, list[Place]]:
        """The places of each event; one that was sent again may have several."""
        found: dict[Id, list[Place]] = {}
        for where, ident in self.ids.items():
            found.setdefault(ident, []).append(where)
        return found

    async def follow(self) -> None:
        """Reads on until it is cancelled."""
        while True:
            await asyncio.to_thread(self._read_on)

    def finish(self) -> None:
        """Reads what is left, and no more."""
        while self._read_on():
            pass
        self._consumer.close()

    def _read_on(self) -> int:
        """The number of records."""
        read = self._consumer.consume(1000, timeout=LOOK_SECONDS)
        for record in read:
            if record.error() is not None:
                continue
            if record.topic() == topics.EVENTS:
                if trail.header(record, "ce_source") == "/chaos":
                    self.ids[trail.place(record)] = trail.header(record, "ce_id")
            elif (key := (record.key() or b"").decode()).startswith("loss/") and (value := record.value()):
                loss = reports.decode(key, value)
                assert isinstance(loss, Loss)
                self.losses.append(loss)
        return len(read)

    def ends(self) -> dict[str, int]:
        """Where the logs of events end now."""
        return self._watermarks(1)

    def begins(self) -> dict[str, int]:
        """Where they begin."""
        return self._watermarks(0)

    def _watermarks(self, which: int) -> dict[str, int]:
        def of(topic: str) -> int:
            marks = self._consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=trail.READ_SECONDS)
            return int(marks[which])

        return {topic: of(topic) for topic in (topics.EVENTS, topics.MATCHED)}


Ranges = dict[str, list[Loss]]
"""By the name of the route."""


def by_route(losses: Iterable[Loss], names: dict[str, str]) -> Ranges:
    """The reported losses of the routes of the run."""
    found: Ranges = {}
    for loss in losses:
        if loss.route in names:
            found.setdefault(names[loss.route], []).append(loss)
    return found


def among(lost: Iterable[Lost], ranges: Ranges, places: dict[Id, list[Place]]) -> set[Lost]:
    """Those that were reported: each copy that is in the log, where it was sent more than once."""
    return {
        one
        for one in lost
        if (copies := places.get(one.id))
        and all(any(_holds(loss, where) for loss in ranges.get(one.subscriber, ())) for where in copies)
    }


def older(copies: Iterable[Place], oldest: Place | None) -> bool:
    """Whether all copies of an event lie before the oldest one that a route got; there is one partition."""
    there = list(copies)
    return bool(there) and oldest is not None and max(there) < oldest


def taken_all_the_same(books: Books, ranges: Ranges, ids: dict[Place, Id]) -> Iterator[str]:
    """What was reported as lost although its subscriber took it."""
    for name, losses in ranges.items():
        arrivals = books.at(name)
        known = (ids.get((loss.partition, offset)) for loss in losses for offset in range(loss.first, loss.last + 1))
        if wrong := [ident for ident in known if ident is not None and arrivals.taken(ident)]:
            yield f"{len(wrong)} events were reported as lost to {name} and reached it, such as {wrong[0]}"


def _holds(loss: Loss, where: Place) -> bool:
    return loss.partition == where[0] and loss.first <= where[1] <= loss.last


def _filled(run: Run) -> dict[str, object]:
    return objects.trigger(FILLER, {"name": FILLER, "subscriber": run.urls.of(FILLER)})


async def _fill(run: Run, pause: float) -> None:
    """Large events, until it is cancelled. They are no events of the run's books."""
    data = b"x" * FILLER_BYTES
    async with ClientBuilder().timeout(timedelta(seconds=15)).no_proxy().build() as client:
        for number in itertools.count():
            headers = {"ce-specversion": "1.0", "ce-id": f"f{number}", "ce-source": "/filler", "ce-type": FILLER}
            url = f"{run.stack.ingress_url}/{routes.NAMESPACE}/{FILLER}"
            with contextlib.suppress(PyreqwestError):
                await (await client.post(url).headers(headers).body_bytes(data).build().send()).bytes()
            await asyncio.sleep(pause)
