"""The attempts of an event as a picture: a lane for each route, time from left to right. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from penstock.history.reader.answers import Attempt, Event
from penstock.operations.formatting import result_text, route_text

MOST_LANES = 40
TICKS = 4
NARROWEST = 0.6
"""Width of an attempt that took no time, in percent: it is to be seen, and to be pointed at."""

STAGES = {"subscriber": "", "reply": "the reply", "deadletter": "the dead letter sink"}


@dataclass(frozen=True)
class Bar:
    """One attempt. Places are in percent of the whole width."""

    number: int
    """Of the attempt in the table beside the picture."""
    left: float
    width: float
    result: str
    label: str
    """What a reader without eyes hears of it."""


@dataclass(frozen=True)
class TimelineLane:
    """The attempts of one route, in the order of time."""

    title: str
    bars: tuple[Bar, ...]
    waits: tuple[float, float] | None = None
    """From the last attempt to when the next one is due, where that has not come."""
    is_well: bool = True


@dataclass(frozen=True)
class Tick:
    """A time on the axis."""

    left: float
    label: str


@dataclass(frozen=True)
class Timeline:
    """The picture."""

    lanes: tuple[TimelineLane, ...]
    ticks: tuple[Tick, ...]
    more: int = 0
    """Routes that are left out."""
    summary: str = ""


def timeline_of(event: Event, attempts: Sequence[Attempt], now: datetime) -> Timeline:
    """The picture of an event's attempts, those of routes that failed first."""
    by_route: dict[str, list[tuple[int, Attempt]]] = {}
    for number, attempt in enumerate(attempts, 1):
        by_route.setdefault(attempt.route, []).append((number, attempt))
    seconds = _span(event, attempts, now)
    lanes = [_lane(event, numbered, seconds, now) for numbered in by_route.values()]
    lanes.sort(key=lambda lane: lane.is_well)
    return Timeline(tuple(lanes[:MOST_LANES]), ticks_of(seconds), max(0, len(lanes) - MOST_LANES), _summary(lanes))


def ticks_of(seconds: float) -> tuple[Tick, ...]:
    """Round times from zero to so many seconds."""
    step = _round_step(seconds / TICKS)
    count = math.floor(seconds / step + 1e-9)
    return tuple(Tick(100 * number * step / seconds, span_text(number * step)) for number in range(count + 1))


def span_text(seconds: float) -> str:
    """A span as people say it."""
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < 7200 else f"{seconds / 3600:.3g} h"


def _span(event: Event, attempts: Sequence[Attempt], now: datetime) -> float:
    """How long the picture is: to the end of the last attempt, or to where the next is due."""
    ends = [attempt.end for attempt in attempts]
    ends += [attempt.due for attempt in attempts if attempt.due is not None and attempt.due > now]
    return max([0.001, *((end - event.arrival).total_seconds() for end in ends)])


def _lane(event: Event, numbered: Sequence[tuple[int, Attempt]], seconds: float, now: datetime) -> TimelineLane:
    last = numbered[-1][1]
    bars = tuple(_bar(event, number, attempt, seconds) for number, attempt in numbered)
    waits = None
    if last.due is not None and last.due > now:
        waits = bars[-1].left + bars[-1].width, _place((last.due - event.arrival).total_seconds(), seconds)
    title = f"{route_text(last)} → {numbered[0][1].destination}"
    return TimelineLane(title, bars, waits, last.succeeded and last.stage != "deadletter")


def _bar(event: Event, number: int, attempt: Attempt, seconds: float) -> Bar:
    start = (attempt.start - event.arrival).total_seconds()
    left = min(_place(start, seconds), 100 - NARROWEST)
    width = max(NARROWEST, _place(start + attempt.duration, seconds) - left)
    stage = STAGES.get(attempt.stage, attempt.stage)
    to = f" to {stage}" if stage else ""
    outcome = result_text(attempt, span_text(attempt.duration))
    label = f"attempt {attempt.attempt}{to}, after {span_text(max(0.0, start))}: {outcome}"
    return Bar(number, round(left, 3), round(width, 3), attempt.result, label)


def _place(seconds: float, of: float) -> float:
    return max(0.0, min(100.0, 100 * seconds / of))


def _round_step(least: float) -> float:
    """The next of 1, 2, 5, 10, 20, …"""
    power: float = 10.0 ** math.floor(math.log10(least))
    return next((power * factor for factor in (1, 2, 5) if power * factor >= least * 0.999), power * 10)


def _summary(lanes: Iterable[TimelineLane]) -> str:
    states = [lane.is_well for lane in lanes]
    routes = f"{len(states)} route{'' if len(states) == 1 else 's'}"
    return f"{routes}, {states.count(True)} served, {states.count(False)} not"
