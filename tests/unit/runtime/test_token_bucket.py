"""How much a token bucket gives at once after a quiet time, and in the long run."""

from __future__ import annotations

from penstock.runtime.rate_limit import TokenBucket


def taken(bucket: TokenBucket, now: float, reserve: float = 0) -> int:
    """How many tokens can be taken until there are none left."""
    count = 0
    while bucket.take(now, reserve=reserve):
        count += 1
    return count


def test_it_is_full_at_first_whatever_the_clock_says() -> None:
    assert taken(TokenBucket(2, 10), 1e9) == 10
    assert taken(TokenBucket(2, 10, level=1), 1e9) == 1


def test_it_fills_with_time_up_to_its_burst() -> None:
    bucket = TokenBucket(2, 10)
    assert taken(bucket, 100.0) == 10
    assert taken(bucket, 103.0) == 6
    assert taken(bucket, 1000.0) == 10


def test_a_part_can_be_left_in_reserve() -> None:
    bucket = TokenBucket(2, 10)
    assert taken(bucket, 100.0, reserve=4) == 6
    assert taken(bucket, 100.0) == 4


def test_more_than_there_is_is_not_taken_and_costs_nothing() -> None:
    bucket = TokenBucket(2, 10)
    assert not bucket.take(100.0, 11)
    assert bucket.take(100.0, 10)


def test_what_was_spent_beyond_its_level_fills_up_first() -> None:
    bucket = TokenBucket(2, 10)
    bucket.spend(14)
    assert bucket.level(100.0) == -4
    assert taken(bucket, 102.0) == 0
    assert taken(bucket, 103.0) == 2


def test_a_clock_that_is_set_back_gives_and_takes_nothing() -> None:
    bucket = TokenBucket(2, 10)
    assert taken(bucket, 100.0) == 10
    assert taken(bucket, 50.0) == 0
    assert taken(bucket, 51.0) == 2
