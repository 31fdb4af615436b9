"""`backtest()`: the question, asked and answered."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from penstock.backtest.counting import count
from penstock.backtest.past_events import PastEvents
from penstock.backtest.report import BacktestReport, Place, SampleEvent, TriggerResult, results_of
from penstock.backtest.trials import Trial
from penstock.backtest.window import Window

SAMPLES = 5
"""Events that are shown of those that were added, and of those that were removed."""

MOST_SAMPLES = 50
"""Events that are looked up in all, however many Triggers are tried."""


def backtest(events: PastEvents, trials: Sequence[Trial], window: Window, samples: int = SAMPLES) -> BacktestReport:
    """What the Triggers would have received within the window, beside what those of their names did. Raises Problem."""
    began = time.monotonic()
    tallies = count(events, trials, window)
    results = results_of(trials, tallies, samples)
    places = dict.fromkeys(place for result in results for place in (*result.added, *result.removed))
    looked_at = events.samples(tuple(places)[:MOST_SAMPLES])
    return BacktestReport(
        tuple(_with_samples(result, looked_at) for result in results),
        window,
        sum(tally.count for tally in tallies if not tally.fate),
        time.monotonic() - began,
    )


def _with_samples(result: TriggerResult, looked_at: dict[Place, SampleEvent]) -> TriggerResult:
    wanted = (*result.added, *result.removed)
    return replace(result, samples={place: looked_at[place] for place in wanted if place in looked_at})
