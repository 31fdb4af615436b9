"""When the writer is started, what it writes, and what it removes: as values."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.history.writer.plan import GATHER_RECORDS, Standing, urgency
from penstock.history.writer.ranges import Lost, Range, next_ranges
from penstock.history.writer.upkeep import MANY_SMALL, MIB, DataFile, Upkeep, plan
from penstock.log.topic_ends import Retained
from penstock.settings import Settings

SETTINGS = Settings(retention_mib=2048, retention_hours=168)
TODAY = date(2026, 11, 17)


def standing(end: int, position: int = 0, first: int = 0, size: float = 1000.0) -> Standing:
    return Standing("penstock.events", {0: Retained(first, end)}, {0: position}, size)


@pytest.mark.parametrize(
    ("behind", "expected"),
    [
        (standing(0), "rest"),
        (standing(100), "rest"),
        (standing(GATHER_RECORDS), "write"),
        (standing(GATHER_RECORDS, position=1), "rest"),
        (standing(1000, size=300_000.0), "write"),
        (standing(1000, position=500, first=1), "write"),
        (standing(1000, position=900, first=1), "rest"),
        (standing(1000, position=100, first=1), "hurry"),
        (standing(1000, position=100, first=500), "hurry"),
    ],
)
def test_it_is_written_when_much_has_gathered_or_retention_is_near(behind: Standing, expected: str) -> None:
    assert urgency([behind], SETTINGS, hours_since=0.0, asked=False) == expected


def test_it_is_written_once_a_day_and_when_somebody_asks() -> None:
    assert urgency([standing(1)], SETTINGS, hours_since=25.0, asked=False) == "write"
    assert urgency([standing(1)], SETTINGS, hours_since=0.0, asked=True) == "write"
    assert urgency([standing(0)], SETTINGS, hours_since=25.0, asked=True) == "rest"


def test_short_retention_makes_it_write_more_often() -> None:
    assert urgency([standing(1)], Settings(retention_hours=2), hours_since=0.6, asked=False) == "write"


def test_what_retention_took_before_it_was_written_is_told() -> None:
    found = next_ranges({0: Retained(10, 20), 1: Retained(5, 9)}, {0: 4, 1: None}, most=100)
    assert found.ranges == {0: Range(10, 20), 1: Range(5, 9)}
    assert found.lost == [Lost(0, 4, 10)]


@given(
    st.dictionaries(st.integers(0, 7), st.tuples(st.integers(0, 50), st.integers(0, 500)), max_size=8),
    st.integers(1, 300),
)
def test_in_the_end_every_offset_is_written_once(kept: dict[int, tuple[int, int]], most: int) -> None:
    retained = {partition: Retained(first, first + count) for partition, (first, count) in kept.items()}
    positions: dict[int, int | None] = {}
    seen: list[tuple[int, int]] = []
    while (wanted := next_ranges(retained, positions, most)).ranges:
        assert wanted.records <= most + len(retained)
        for partition, one in wanted.ranges.items():
            seen += [(partition, offset) for offset in range(one.first, one.end)]
            positions[partition] = one.end
    expected = [
        (partition, offset) for partition, kept_ in retained.items() for offset in range(kept_.first, kept_.end)
    ]
    assert sorted(seen) == sorted(expected)


def test_days_that_are_too_old_are_removed() -> None:
    files = [DataFile("events", date(2026, 11, day), 1) for day in (1, 10, 17)]
    assert plan(files, TODAY, days=8, mib=100) == Upkeep(date(2026, 11, 10), ())
    assert plan(files[1:], TODAY, days=8, mib=100).remove_before is None


def test_the_oldest_days_go_where_there_is_no_room_but_the_present_one_stays() -> None:
    files = [DataFile("events", date(2026, 11, day), 40 * MIB) for day in (14, 15, 16)]
    files += [DataFile("attempts", date(2026, 11, 17), 30 * MIB)]
    assert plan(files, TODAY, days=30, mib=100).remove_before == date(2026, 11, 16)
    assert plan(files[3:], TODAY, days=30, mib=10).remove_before is None


def test_many_small_files_of_a_day_are_put_together() -> None:
    small = [DataFile("attempts", TODAY, 1)] * MANY_SMALL
    assert plan(small, TODAY, days=30, mib=100).compact == (("attempts", TODAY),)
    assert plan(small[1:], TODAY, days=30, mib=100).compact == ()
    assert plan([DataFile("events", TODAY, 20 * MIB)] * 40, TODAY, days=30, mib=4000).compact == ()
