"""A thread that hangs is noticed from outside; a process that was frozen is not blamed for it."""

from __future__ import annotations

import threading

import pytest

from penstock.router import watchdogs
from penstock.router.watchdogs import TURN_SECONDS, AwakeClock, HangWatchdog, stack_of


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_thread_that_says_nothing_for_too_long_hangs() -> None:
    clock = Clock()
    watchdog = HangWatchdog(lambda doing: None, clock)
    watchdog.heartbeat("counts sheep")
    assert watchdog.look() is None
    clock.now += TURN_SECONDS
    assert watchdog.look() is None
    clock.now += 1
    assert watchdog.look() == "counts sheep, for 61 s"


def test_every_beat_begins_anew_though_it_says_the_same() -> None:
    clock = Clock()
    watchdog = HangWatchdog(lambda doing: None, clock)
    for _ in range(100):
        watchdog.heartbeat()
        clock.now += TURN_SECONDS - 1
        assert watchdog.look() is None


def test_what_takes_long_may_take_long() -> None:
    clock = Clock()
    watchdog = HangWatchdog(lambda doing: None, clock)
    watchdog.heartbeat("plans", 300)
    watchdog.look()
    clock.now += 299
    assert watchdog.look() is None
    watchdog.heartbeat()
    watchdog.look()
    clock.now += TURN_SECONDS + 1
    assert watchdog.look() is not None


def test_a_process_that_was_frozen_does_not_blame_its_thread() -> None:
    frozen = Clock()
    watchdog = HangWatchdog(lambda doing: None, AwakeClock(2.0, frozen))
    watchdog.heartbeat()
    watchdog.look()
    frozen.now += 3600
    assert watchdog.look() is None
    for _ in range(int(TURN_SECONDS)):
        frozen.now += 1
        found = watchdog.look()
    assert found is not None, "a real hang is noticed afterwards"


def test_lived_time_runs_with_the_clock_but_for_long_gaps() -> None:
    clock = Clock()
    lived = AwakeClock(1.0, clock)
    clock.now += 0.5
    assert lived() == 0.5
    clock.now += 0.25
    assert lived() == 0.75
    clock.now += 60
    assert lived() == 1.75


def test_a_thread_that_really_hangs_is_reported_with_the_place_where_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdogs, "LOOK_SECONDS", 0.001)
    found: list[str] = []
    noticed, released = threading.Event(), threading.Event()

    def hanging(doing: str) -> None:
        found.extend([doing, *stack_of(thread)])
        noticed.set()

    watchdog = HangWatchdog(hanging)

    def hang_for_ever() -> None:
        watchdog.heartbeat("waits for an answer", 0.01)
        released.wait(10)

    thread = threading.Thread(target=hang_for_ever)
    thread.start()
    watchdog.start()
    assert noticed.wait(5)
    released.set()
    thread.join()
    watchdog.stop()
    assert found[0].startswith("waits for an answer")
    assert any("hang_for_ever" in line for line in found)


def test_a_watchdog_that_fails_says_so_rather_than_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdogs, "LOOK_SECONDS", 0.001)
    found: list[str] = []
    noticed = threading.Event()
    broken = Clock()

    def report(doing: str) -> None:
        found.append(doing)
        noticed.set()

    watchdog = HangWatchdog(report, broken)
    broken.now = "no number"  # type: ignore[assignment]
    watchdog.start()
    assert noticed.wait(5)
    assert found == ["its watchdog failed: TypeError: unsupported operand type(s) for -: 'str' and 'float'"]


def test_a_watchdog_that_is_stopped_reports_nothing_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdogs, "LOOK_SECONDS", 0.001)
    found: list[str] = []
    clock = Clock()
    watchdog = HangWatchdog(found.append, clock)
    watchdog.heartbeat("ends", 0.05)
    watchdog.start()
    watchdog.stop()
    clock.now += 1.0
    assert not watchdog._thread.is_alive()
    assert found == []
