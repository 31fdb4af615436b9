"""What may be written in a second, at once after a quiet time, and what is kept for urgent things."""

from __future__ import annotations

from penstock.controllers.routes.allowance import Allowance


def uses(allowance: Allowance, *, urgent: bool) -> int:
    """How often it may be used until it is used up."""
    count = 0
    while allowance.use(urgent=urgent):
        count += 1
    return count


def test_a_part_is_kept_for_what_is_urgent() -> None:
    allowance = Allowance(2, most=10, kept=4)
    allowance.grow(100.0)
    assert uses(allowance, urgent=False) == 6
    assert uses(allowance, urgent=True) == 4


def test_it_grows_with_time_up_to_its_most() -> None:
    allowance = Allowance(2, most=10, kept=0)
    allowance.grow(100.0)
    assert uses(allowance, urgent=True) == 10
    allowance.grow(103.0)
    assert uses(allowance, urgent=True) == 6
    allowance.grow(1000.0)
    assert uses(allowance, urgent=True) == 10


def test_a_clock_that_is_set_back_gives_and_takes_nothing() -> None:
    allowance = Allowance(2, most=10, kept=0)
    allowance.grow(100.0)
    assert uses(allowance, urgent=True) == 10
    allowance.grow(50.0)
    assert uses(allowance, urgent=True) == 0
    allowance.grow(51.0)
    assert uses(allowance, urgent=True) == 2
