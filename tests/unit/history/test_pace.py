"""How long the writer rests between two steps."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from penstock.history.writer.plan import WriterPace


@dataclass
class Process:
    """A process whose time passes when it works or sleeps."""

    now: float = 100.0
    used: float = 7.0
    rests: list[float] = field(default_factory=list)
    urged: bool = False

    def pace(self, share: float) -> WriterPace:
        return WriterPace(share, lambda: self.urged, now=lambda: self.now, used=lambda: self.used, sleep=self.sleep)

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.rests.append(seconds)

    def work(self, seconds: float, waiting: float = 0.0) -> None:
        self.now += seconds + waiting
        self.used += seconds


def test_so_much_of_the_time_is_worked() -> None:
    process = Process()
    pace = process.pace(0.25)
    for _ in range(10):
        process.work(0.01)
        pace.rest()
    assert process.rests == [pytest.approx(0.03)] * 10
    assert (process.used - 7.0) / (process.now - 100.0) == pytest.approx(0.25)


def test_what_it_had_to_wait_for_counts_as_rest_but_is_not_saved_up() -> None:
    process = Process()
    pace = process.pace(0.25)
    process.work(0.01, waiting=0.02)
    pace.rest()
    process.work(0.01, waiting=5.0)
    pace.rest()
    process.work(0.01)
    pace.rest()
    assert process.rests == [pytest.approx(0.01), pytest.approx(0.03)]


def test_whoever_is_urged_on_does_not_rest_until_that_ends() -> None:
    process = Process(urged=True)
    pace = process.pace(0.25)
    process.work(1.0)
    pace.rest()
    process.urged = False
    process.work(0.01)
    pace.rest()
    assert process.rests == [pytest.approx(0.03)]


def test_the_whole_time_has_no_rests_until_it_is_to_be_less() -> None:
    process = Process()
    pace = process.pace(1.0)
    process.work(30.0)
    pace.rest()
    assert process.rests == []
    pace.slow_down(0.25)
    process.work(0.01)
    pace.rest()
    assert process.rests == [pytest.approx(0.03)], "what it did before is not made up for"
