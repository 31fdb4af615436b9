"""One client cannot starve the others, and tokens cannot be guessed quickly."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from penstock.apiserver.access.identity import ADMIN, CONTROLLER, MASTERS, User
from penstock.apiserver.errors import ApiError
from penstock.apiserver.http.request_limits import (
    BODIES_PER_USER,
    MAX_BUCKETS,
    TOO_MANY,
    WATCHES_PER_USER,
    WRONG_TOKENS,
    Buckets,
    RequestLimits,
)

JANE, JOE = User("jane"), User("joe")


class Clock:
    """Time as a number."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def ask(fair: RequestLimits, user: User, *, has_body: bool = False, is_watch: bool = False) -> None:
    with fair.request(user, has_body=has_body, is_watch=is_watch):
        pass


def test_who_asks_too_fast_comes_back_later_and_the_others_are_served() -> None:
    clock = Clock()
    fair = RequestLimits(10, clock)
    for _ in range(20):
        ask(fair, JANE)
    with pytest.raises(ApiError) as refused:
        ask(fair, JANE)
    assert (refused.value.code, refused.value.headers) == (429, {"retry-after": "1"})
    assert refused.value.status()["message"] == TOO_MANY
    ask(fair, JOE)
    clock.now += 0.1
    ask(fair, JANE)
    with pytest.raises(ApiError, match=TOO_MANY):
        ask(fair, JANE)


@pytest.mark.parametrize("user", [User(ADMIN, (MASTERS,)), User(CONTROLLER)])
def test_administrators_and_own_processes_are_exempt(user: User) -> None:
    fair = RequestLimits(1, Clock())
    with ExitStack() as under_way:
        for _ in range(BODIES_PER_USER + 10):
            under_way.enter_context(fair.request(user, has_body=True, is_watch=False))
        assert not fair._bodies


@pytest.mark.parametrize(("is_watch", "most"), [(False, BODIES_PER_USER), (True, WATCHES_PER_USER)])
def test_what_a_user_has_under_way_is_bounded(is_watch: bool, most: int) -> None:
    fair = RequestLimits(1_000_000, Clock())
    with ExitStack() as under_way:
        for _ in range(most):
            under_way.enter_context(fair.request(JANE, has_body=True, is_watch=is_watch))
        with pytest.raises(ApiError, match="Too many requests"):
            ask(fair, JANE, has_body=True, is_watch=is_watch)
        ask(fair, JANE)
        ask(fair, JOE, has_body=True, is_watch=is_watch)
    ask(fair, JANE, has_body=True, is_watch=is_watch)


def test_an_address_with_wrong_tokens_is_told_to_wait() -> None:
    clock = Clock()
    fair = RequestLimits(10, clock)
    assert [fair.wrong_token("10.0.0.1").code for _ in range(WRONG_TOKENS + 2)] == [401] * WRONG_TOKENS + [429] * 2
    assert fair.wrong_token("10.0.0.2").code == 401
    clock.now += 1
    assert [fair.wrong_token("10.0.0.1").code for _ in range(2)] == [401, 429]


def test_what_is_kept_in_mind_is_bounded() -> None:
    buckets = Buckets(1, 1, Clock())
    for number in range(MAX_BUCKETS * 2):
        buckets.take(str(number))
    assert len(buckets._buckets) == MAX_BUCKETS
