"""Back-off grows to a limit, a long life is forgiven much, and dying without end is given up."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.processes.restarts import CrashCounter, GiveUp, Restart, RestartPolicy


def test_the_first_restart_is_at_once_and_delays_double_up_to_the_longest() -> None:
    crashes = CrashCounter(RestartPolicy(first_delay=1, longest_delay=4, crashes_after_ready=10))
    assert [crashes.count(1, was_ready=True) for _ in range(6)] == [
        Restart(0),
        Restart(1),
        Restart(2),
        Restart(4),
        Restart(4),
        Restart(4),
    ]


def test_one_that_never_gets_ready_is_given_up_early() -> None:
    crashes = CrashCounter(RestartPolicy(crashes_before_ready=3))
    assert isinstance(crashes.count(1, was_ready=False), Restart)
    assert not crashes.has_one_try_left
    assert isinstance(crashes.count(1, was_ready=False), Restart)
    assert crashes.has_one_try_left
    assert crashes.count(1, was_ready=False) == GiveUp(3)


def test_one_that_keeps_dying_after_being_ready_is_given_up_later() -> None:
    crashes = CrashCounter(RestartPolicy(crashes_after_ready=4))
    decisions = [crashes.count(1, was_ready=True) for _ in range(4)]
    assert all(isinstance(decision, Restart) for decision in decisions[:3])
    assert decisions[3] == GiveUp(4)


def test_a_long_life_makes_earlier_deaths_forgotten() -> None:
    policy = RestartPolicy(first_delay=1, stable_seconds=60, crashes_after_ready=3)
    crashes = CrashCounter(policy)
    crashes.count(1, was_ready=True)
    crashes.count(1, was_ready=True)
    assert crashes.count(61, was_ready=True) == Restart(0)


@given(st.lists(st.tuples(st.floats(0, 1000), st.booleans()), max_size=40))
def test_delays_stay_within_bounds(lives: list[tuple[float, bool]]) -> None:
    policy = RestartPolicy()
    crashes = CrashCounter(policy)
    for seconds, was_ready in lives:
        decision = crashes.count(seconds, was_ready)
        if isinstance(decision, Restart):
            assert decision.delay == 0 or policy.first_delay <= decision.delay <= policy.longest_delay
