"""The result of a backtest: counts by hour, examples, and expectations such as `added=0`. Pure."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any

from penstock.backtest.trials import Trial
from penstock.runtime.errors import UserError
from penstock.runtime.times import rfc3339


@dataclass(frozen=True)
class Tally:
    """Events of one hour and one partition that fared alike."""

    hour: datetime
    """Its beginning, UTC."""
    target: str
    fate: str
    """Empty for all events of the target; `c3` for those that only the third candidate would get, `p3` for those that
    only its present Trigger gets, each with `=` behind it for those that both do."""
    partition: int
    count: int
    oldest: int
    newest: int
    """Offsets."""


Place = tuple[int, int]
"""Partition and offset of an event in `penstock.events`."""


@dataclass(frozen=True)
class Window:
    """From `since` up to, not including, `until`."""

    since: datetime
    until: datetime


@dataclass(frozen=True)
class EventCounts:
    """Events, by what became of them."""

    events: int = 0
    """All of the Broker's."""
    added: int = 0
    """That only the Trigger as it is tried would get."""
    removed: int = 0
    """That only the Trigger as it is now gets."""
    both: int = 0

    @property
    def matched(self) -> int:
        """What the Trigger would have got."""
        return self.both + self.added

    @property
    def present(self) -> int:
        """What the Trigger as it is now got."""
        return self.both + self.removed

    def __add__(self, other: EventCounts) -> EventCounts:
        return EventCounts(
            self.events + other.events,
            self.added + other.added,
            self.removed + other.removed,
            self.both + other.both,
        )

    def as_data(self) -> dict[str, int]:
        """For programs."""
        names = ("events", "matched", "present", "added", "removed")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class SampleEvent:
    """An event shown as an example."""

    id: str
    type: str
    source: str
    subject: str | None
    arrival: datetime
    partition: int
    offset: int

    def as_data(self) -> dict[str, Any]:
        """For programs."""
        return {**asdict(self), "arrival": rfc3339(self.arrival)}


@dataclass(frozen=True)
class TriggerResult:
    """What is known of one Trigger."""

    trial: Trial
    hours: Mapping[datetime, EventCounts]
    """In order of time."""
    added: tuple[Place, ...] = ()
    removed: tuple[Place, ...] = ()
    """Places of a few events, the newest first."""
    samples: Mapping[Place, SampleEvent] = field(default_factory=dict)

    @property
    def total(self) -> EventCounts:
        """Over the whole time."""
        return sum(self.hours.values(), EventCounts())

    def as_data(self) -> dict[str, Any]:
        """For programs."""
        return {
            "namespace": self.trial.namespace,
            "name": self.trial.name,
            "broker": self.trial.broker,
            "exists": self.trial.present is not None,
            **self.total.as_data(),
            "hours": [{"hour": rfc3339(hour), **counts.as_data()} for hour, counts in self.hours.items()],
            "samples": {
                "added": [self.samples[place].as_data() for place in self.added if place in self.samples],
                "removed": [self.samples[place].as_data() for place in self.removed if place in self.samples],
            },
        }


@dataclass(frozen=True)
class BacktestReport:
    """What is known of all of them."""

    results: tuple[TriggerResult, ...]
    window: Window
    events: int
    """Events that were read."""
    seconds: float
    """What it took, without the start of Spark."""

    def as_data(self) -> dict[str, Any]:
        """For programs."""
        return {
            "since": rfc3339(self.window.since),
            "until": rfc3339(self.window.until),
            "events": self.events,
            "seconds": round(self.seconds, 3),
            "triggers": [result.as_data() for result in self.results],
        }


def results_of(trials: Sequence[Trial], tallies: Iterable[Tally], samples: int) -> tuple[TriggerResult, ...]:
    """One result per trial, with the places of so many events that were added, and that were removed."""
    by_fate: dict[str, list[Tally]] = {}
    by_target: dict[str, list[Tally]] = {}
    for tally in sorted(tallies, key=lambda tally: (tally.hour, tally.partition)):
        kept, key = (by_fate, tally.fate) if tally.fate else (by_target, tally.target)
        kept.setdefault(key, []).append(tally)
    return tuple(_result(n, trial, by_fate, by_target.get(trial.target, []), samples) for n, trial in enumerate(trials))


def _result(
    number: int, trial: Trial, by_fate: Mapping[str, list[Tally]], all_events: Iterable[Tally], samples: int
) -> TriggerResult:
    added, both, removed = (by_fate.get(f"{fate}", []) for fate in (f"c{number}", f"c{number}=", f"p{number}"))
    hours: dict[datetime, EventCounts] = {}
    for tallies, name in ((all_events, "events"), (added, "added"), (both, "both"), (removed, "removed")):
        for tally in tallies:
            before = hours.get(tally.hour, EventCounts())
            hours[tally.hour] = replace(before, **{name: getattr(before, name) + tally.count})
    return TriggerResult(trial, dict(sorted(hours.items())), _newest(added, samples), _newest(removed, samples))


def _newest(tallies: Sequence[Tally], most: int) -> tuple[Place, ...]:
    places: dict[Place, None] = {}
    for tally in reversed(tallies):
        places[tally.partition, tally.newest] = None
        places[tally.partition, tally.oldest] = None
    return tuple(places)[:most]


NAMES = ("events", "matched", "present", "added", "removed")
_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_FORM = re.compile(r"\s*([a-z]+)\s*(!=|<=|>=|=|<|>)\s*(\d+)\s*")


@dataclass(frozen=True)
class Expectation:
    """A count, and what it should be."""

    name: str
    comparison: str
    value: int

    def holds(self, counts: EventCounts) -> bool:
        """Whether the counts are as expected."""
        return _COMPARE[self.comparison](getattr(counts, self.name), self.value)

    def __str__(self) -> str:
        return f"{self.name}{self.comparison}{self.value}"


def read(texts: Iterable[str]) -> tuple[Expectation, ...]:
    """The expectations, each or several joined by commas. Raises UserError."""
    return tuple(_read(part) for text in texts for part in text.split(","))


def _read(text: str) -> Expectation:
    found = _FORM.fullmatch(text)
    if found is None or found[1] not in NAMES:
        names = ", ".join(NAMES)
        raise UserError(
            f"Invalid --expect {text}.", f"Write added=0 or matched>=10; the counts are {names}.", exit_code=2
        )
    return Expectation(found[1], found[2], int(found[3]))


def disappointments(results: Iterable[TriggerResult], expected: Iterable[Expectation]) -> list[str]:
    """What is not as expected, each in one line; every Trigger must be."""
    expected = tuple(expected)
    return [
        f"Trigger {result.trial.namespace}/{result.trial.name}: expected {each}, "
        f"found {getattr(result.total, each.name)}"
        for result in results
        for each in expected
        if not each.holds(result.total)
    ]
