"""Back-off grows to a limit, a long life is forgiven much, and dying without end is given up."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.processes.restarts import Deaths, GiveUp, Patience, Restart


def test_the_first_restart_is_at_once_and_delays_double_up_to_the_longest() -> None:
    deaths = Deaths(Patience(first_delay=1, longest_delay=4, deaths_after_ready=10))
    assert [deaths.count(1, was_ready=True) for _ in range(6)] == [
        Restart(0),
        Restart(1),
        Restart(2),
        Restart(4),
        Restart(4),
        Restart(4),
    ]


def test_one_that_never_gets_ready_is_given_up_early() -> None:
    deaths = Deaths(Patience(deaths_before_ready=3))
    assert isinstance(deaths.count(1, was_ready=False), Restart)
    assert not deaths.one_try_left
    assert isinstance(deaths.count(1, was_ready=False), Restart)
    assert deaths.one_try_left
    assert deaths.count(1, was_ready=False) == GiveUp(3)


def test_one_that_keeps_dying_after_being_ready_is_given_up_later() -> None:
    deaths = Deaths(Patience(deaths_after_ready=4))
    decisions = [deaths.count(1, was_ready=True) for _ in range(4)]
    assert all(isinstance(decision, Restart) for decision in decisions[:3])
    assert decisions[3] == GiveUp(4)


def test_a_long_life_makes_earlier_deaths_forgotten() -> None:
    patience = Patience(first_delay=1, stable_seconds=60, deaths_after_ready=3)
    deaths = Deaths(patience)
    deaths.count(1, was_ready=True)
    deaths.count(1, was_ready=True)
    assert deaths.count(61, was_ready=True) == Restart(0)


@given(st.lists(st.tuples(st.floats(0, 1000), st.booleans()), max_size=40))
def test_delays_stay_within_bounds(lives: list[tuple[float, bool]]) -> None:
    patience = Patience()
    deaths = Deaths(patience)
    for lived, was_ready in lives:
        decision = deaths.count(lived, was_ready)
        if isinstance(decision, Restart):
            assert decision.delay == 0 or patience.first_delay <= decision.delay <= patience.longest_delay
