"""Moments, written and read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from penstock.runtime.times import nanoseconds_of, parse_rfc3339, rfc3339, rfc3339_milli, rfc3339_nano, rfc3339_of


def test_kubernetes_and_go_write_a_moment_in_their_ways() -> None:
    moment = datetime(2021, 10, 6, 22, 40, 53, 700_000, tzinfo=timezone(timedelta(hours=2)))
    assert rfc3339(moment) == "2021-10-06T20:40:53Z"
    assert rfc3339_of(1633552853) == "2021-10-06T20:40:53Z"
    assert rfc3339_nano(1633552853_257339300) == "2021-10-06T20:40:53.2573393Z"
    assert rfc3339_nano(1633552853_000000000) == "2021-10-06T20:40:53Z"
    assert rfc3339_milli(1633552853.0625) == "2021-10-06T20:40:53.062Z"


def test_no_digit_of_a_moment_is_lost() -> None:
    assert nanoseconds_of("2021-10-06T20:40:53.257339312Z") == 1633552853_257339312
    assert nanoseconds_of("2021-10-06T22:40:53.5+02:00") == 1633552853_500000000
    assert nanoseconds_of("2021-10-06T20:40:53Z") == 1633552853_000000000


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("2021-10-06T20:40:53.257339312Z", 257339),
        ("2021-10-06T20:40:53.25Z", 250000),
        ("2021-10-06T20:40:53Z", 0),
        ("2021-10-06T22:40:53+02:00", 0),
        ("2021-10-06T20:40:53", 0),
    ],
)
def test_a_moment_is_read_with_any_fraction_and_zone(text: str, microseconds: int) -> None:
    assert parse_rfc3339(text) == datetime(2021, 10, 6, 20, 40, 53, microseconds, tzinfo=UTC)


@pytest.mark.parametrize("text", ["", "None", "yesterday", "2021-13-06T20:40:53Z"])
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_rfc3339(text)


def test_now_is_now() -> None:
    assert abs((parse_rfc3339(rfc3339()) - datetime.now(UTC)).total_seconds()) < 5
    assert abs((parse_rfc3339(rfc3339_nano()) - datetime.now(UTC)).total_seconds()) < 5
