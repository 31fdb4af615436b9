"""Arrival time, and the end of loops."""

from __future__ import annotations

import pytest

from penstock.events.attributes import TooManyHops, arrival_time, enter_broker, next_ttl
from penstock.events.event import CloudEvent

EVENT = CloudEvent({"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}, b"data")


@pytest.mark.parametrize(
    ("present", "ttl"),
    [
        *((None, 255), ("", 255), ("many", 255), ("1.5", 255), ("9" * 5000, 255)),
        *(("7", 6), ("1", 0), ("0", 0), ("-4", 0)),
        *(("255", 254), ("256", 255), ("257", 255), ("999999999", 255)),
    ],
)
def test_ttl(present: str | None, ttl: int) -> None:
    assert next_ttl(present, 255) == ttl


def test_arrival_time_has_nanoseconds() -> None:
    assert arrival_time(1_633_543_964_077_063_771) == "2021-10-06T18:12:44.077063771Z"


def test_entering_a_broker_sets_both_and_keeps_the_rest() -> None:
    entered = enter_broker(EVENT.with_attributes(knativearrivaltime="old"), 255, 0)
    assert entered.attributes == {
        **EVENT.attributes,
        "knativearrivaltime": "1970-01-01T00:00:00.000000000Z",
        "knativebrokerttl": "255",
    }
    assert entered.data == EVENT.data


def test_a_loop_ends() -> None:
    once = enter_broker(EVENT, 3, 0)
    twice = enter_broker(once, 3, 0)
    thrice = enter_broker(twice, 3, 0)
    assert [event.attributes["knativebrokerttl"] for event in (once, twice, thrice)] == ["3", "2", "1"]
    with pytest.raises(TooManyHops, match="knativebrokerttl"):
        enter_broker(thrice, 3, 0)
