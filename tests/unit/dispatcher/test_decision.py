"""Classification, back-off and what follows an attempt; retries in virtual time."""

from __future__ import annotations

from email.utils import formatdate
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.contract.routes import Delivery, Endpoint, Route
from penstock.dispatcher.cursors.cursor import Stage
from penstock.dispatcher.delivery.backoff import LONGEST_SECONDS, backoff, longest_wait, retry_after, wait_before
from penstock.dispatcher.delivery.decision import (
    Done,
    Dropped,
    Reply,
    Retry,
    ToDeadLetter,
    Verdict,
    destination,
    expects_reply,
    next_step,
)
from penstock.dispatcher.http.outcome import Outcome, classify, may_carry_reply

NOW = 1_000.0
SUBSCRIBER, REPLY_TO, SINK = Endpoint("http://s/"), Endpoint("http://r/"), Endpoint("http://d/")


def trigger(**delivery: object) -> Route:
    return Route("t", "Trigger", "ns", "t", "b", subscriber=SUBSCRIBER, delivery=Delivery(**delivery))  # type: ignore[arg-type]


def subscription(reply: Endpoint | None = REPLY_TO, subscriber: Endpoint | None = SUBSCRIBER) -> Route:
    return Route("s", "Subscription", "ns", "s", "c", subscriber=subscriber, reply=reply)


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_success_is_200_to_299(status: int) -> None:
    assert classify(status) is Outcome.DELIVERED


@pytest.mark.parametrize("status", [None, 404, 408, 409, 429, 500, 502, 503, 599])
def test_retryable(status: int | None) -> None:
    assert classify(status) is Outcome.RETRYABLE


@pytest.mark.parametrize("status", [100, 199, 301, 302, 307, 308, 400, 401, 403, 405, 410, 413, 415, 422])
def test_refused(status: int) -> None:
    assert classify(status) is Outcome.REFUSED


def test_202_never_carries_a_reply() -> None:
    assert not may_carry_reply(202)
    assert may_carry_reply(200)
    assert not may_carry_reply(404)


def delays(route: Route, verdict: Verdict) -> list[float]:
    """The gaps between attempts until the delivery is given up, on a clock that only this moves."""
    now, gaps, attempts = NOW, [], 1
    while isinstance(step := next_step(route, Stage.SUBSCRIBER, attempts, verdict, now), Retry):
        gaps.append(step.at - now)
        now, attempts = step.at, attempts + 1
    return gaps


REFUSED_CONNECTION = Verdict(Outcome.RETRYABLE, reason="refused")


def test_linear_waits_grow_from_zero() -> None:
    assert delays(trigger(retry=3, backoff_policy="linear", backoff_delay=2.0), REFUSED_CONNECTION) == [0, 2, 4]


def test_exponential_waits_double() -> None:
    route = trigger(retry=4, backoff_policy="exponential", backoff_delay=2.0)
    assert delays(route, REFUSED_CONNECTION) == [2, 4, 8, 16]


@pytest.mark.parametrize(
    ("policy", "longest", "expected"),
    [
        ("linear", 5.0, [0, 2, 4, 5, 5]),
        ("exponential", 5.0, [2, 4, 5, 5, 5]),
        ("linear", 1.0, [0, 1, 1, 1, 1]),
        ("exponential", 1.0, [1, 1, 1, 1, 1]),
        ("exponential", 100.0, [2, 4, 8, 16, 32]),
    ],
)
def test_no_wait_is_longer_than_backoff_max(policy: str, longest: float, expected: list[float]) -> None:
    route = trigger(retry=5, backoff_policy=policy, backoff_delay=2.0, backoff_max=longest)
    assert delays(route, REFUSED_CONNECTION) == expected


@pytest.mark.parametrize(
    ("policy", "retry", "longest"),
    [
        (Delivery(retry=9, backoff_policy="exponential", backoff_delay=3.0), 2, 12.0),
        (Delivery(retry=9, backoff_policy="linear", backoff_delay=3.0, retry_after_max=60.0), 2, 60.0),
        (Delivery(retry=9, backoff_policy="linear", backoff_delay=100.0, retry_after_max=60.0), 2, 200.0),
        (Delivery(retry=9), 2, 0.0),
    ],
)
def test_the_longest_wait_is_that_of_the_policy_or_what_an_answer_may_ask_for(
    policy: Delivery, retry: int, longest: float
) -> None:
    assert longest_wait(policy, retry) == longest


@pytest.mark.parametrize("fields", [{"backoff_policy": "linear"}, {"backoff_delay": 2.0}, {"backoff_max": 2.0}, {}])
def test_without_policy_and_delay_retries_are_immediate(fields: dict[str, object]) -> None:
    assert delays(trigger(retry=2, **fields), REFUSED_CONNECTION) == [0, 0]


def test_no_retry_means_one_attempt() -> None:
    assert delays(trigger(), REFUSED_CONNECTION) == []


def test_a_refusal_is_not_retried() -> None:
    route = trigger(retry=5, dead_letter=SINK)
    assert next_step(route, Stage.SUBSCRIBER, 1, Verdict(Outcome.REFUSED, 400, reason="no"), NOW) == ToDeadLetter("no")


def test_given_up_without_sink_is_dropped() -> None:
    step = next_step(trigger(retry=1), Stage.SUBSCRIBER, 2, Verdict(Outcome.RETRYABLE, 503, reason="busy"), NOW)
    assert step == Dropped("busy")


def test_the_sink_gets_the_same_retries_and_is_then_dropped() -> None:
    route = trigger(retry=1, backoff_policy="linear", backoff_delay=1.0, dead_letter=SINK)
    verdict = Verdict(Outcome.RETRYABLE, 500, reason="broken")
    assert next_step(route, Stage.DEAD_LETTER, 1, verdict, NOW) == Retry(NOW)
    assert next_step(route, Stage.DEAD_LETTER, 2, verdict, NOW) == Dropped("broken")


def test_a_subscriptions_reply_is_a_stage_and_its_failure_goes_to_the_sink() -> None:
    route = subscription()
    replied = Verdict(Outcome.DELIVERED, 200, replied=True)
    assert next_step(route, Stage.SUBSCRIBER, 1, replied, NOW) == Reply()
    assert next_step(route, Stage.REPLY, 1, Verdict(Outcome.DELIVERED, 202), NOW) == Done()
    failed = Verdict(Outcome.REFUSED, 400, reason="no")
    assert next_step(route, Stage.REPLY, 1, failed, NOW) == Dropped("no")


def test_a_reply_without_destination_is_done() -> None:
    step = next_step(subscription(reply=None), Stage.SUBSCRIBER, 1, Verdict(Outcome.DELIVERED, 200, replied=True), NOW)
    assert step == Done()


def test_reply_only_goes_straight_to_the_reply_and_expects_none() -> None:
    route = subscription(subscriber=None)
    assert destination(route, Stage.SUBSCRIBER) == REPLY_TO
    assert not expects_reply(route, Stage.SUBSCRIBER)
    assert expects_reply(subscription(), Stage.SUBSCRIBER)
    assert not expects_reply(subscription(), Stage.REPLY)
    assert not expects_reply(trigger(dead_letter=SINK), Stage.DEAD_LETTER)


def test_retry_after_counts_within_its_limit_for_429_and_503_only() -> None:
    policy = Delivery(retry=3, backoff_policy="linear", backoff_delay=2.0, retry_after_max=10.0)
    assert wait_before(policy, 1, 429, "5", NOW) == 5
    assert wait_before(policy, 1, 503, "60", NOW) == 10
    assert wait_before(policy, 3, 503, "1", NOW) == 6
    assert wait_before(policy, 1, 500, "5", NOW) == 2
    assert wait_before(Delivery(retry=3), 1, 429, "5", NOW) == 0
    assert wait_before(Delivery(retry=3, retry_after_max=0.0), 1, 429, "5", NOW) == 0


def test_retry_after_is_not_bounded_by_backoff_max() -> None:
    policy = Delivery(retry=3, backoff_policy="linear", backoff_delay=9.0, backoff_max=5.0, retry_after_max=10.0)
    assert wait_before(policy, 1, 429, "7", NOW) == 7
    assert wait_before(policy, 1, 429, "60", NOW) == 10
    assert wait_before(policy, 1, 429, "1", NOW) == 5
    assert wait_before(policy, 1, 500, "7", NOW) == 5


def test_retry_after_may_be_a_date() -> None:
    assert retry_after(formatdate(NOW + 30, usegmt=True), NOW) == 30
    assert retry_after(formatdate(NOW - 30, usegmt=True), NOW) == 0


@given(st.text())
def test_any_retry_after_is_read_or_ignored(header: str) -> None:
    seconds = retry_after(header, NOW)
    assert seconds is None or seconds >= 0


@given(
    st.sampled_from(["linear", "exponential"]),
    st.integers(0, 2**31 - 1),
    st.floats(0.001, allow_nan=False),
    st.none() | st.floats(0.001, allow_nan=False),
)
def test_waits_are_finite(
    policy: Literal["linear", "exponential"], retry: int, delay: float, longest: float | None
) -> None:
    wait = backoff(Delivery(backoff_policy=policy, backoff_delay=delay, backoff_max=longest), retry)
    assert 0 <= wait <= min(longest or LONGEST_SECONDS, LONGEST_SECONDS)
    assert wait > 0 or (policy, retry) == ("linear", 0)
