"""When the writer is started, what it writes, and what it removes: as values."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.history.reader.table_events import KeptEvents, Stretch
from penstock.history.schema.columns import EVENTS, TableName
from penstock.history.writer.plan import FAST, GATHER_RECORDS, LAST, RISKY, URGENT, Inflow, TableStanding, urgency
from penstock.history.writer.stored_table import LostRecords, Range, next_ranges
from penstock.history.writer.upkeep import MANY_SMALL, MIB, DataFile, TableUpkeep, plan, plan_ahead, removed_soon
from penstock.kafka.topic_ends import Retained
from penstock.settings import Settings
from tests.written import NOON, event, write

SETTINGS = Settings(retention_mib=2048, retention_hours=168)
TODAY = date(2026, 11, 17)


def standing(end: int, position: int = 0, first: int = 0, size: float = 1000.0) -> TableStanding:
    return TableStanding("penstock.events", {0: Retained(first, end)}, {0: position}, size)


def in_room(part: float) -> TableStanding:
    """So much of what Kafka retains is unwritten."""
    return standing(1000, position=1000 - int(part * 999), first=1)


@pytest.mark.parametrize(
    ("part", "slowly", "fast"),
    [
        (0.3, "rest", "rest"),
        (RISKY + 0.01, "leisure", "write"),
        (URGENT + 0.01, "leisure", "hurry"),
        (LAST + 0.01, "hurry", "hurry"),
    ],
)
def test_how_urgent_it_is_depends_on_how_fast_records_come(part: float, slowly: str, fast: str) -> None:
    found = [urgency([in_room(part)], SETTINGS, 0.0, False, rate) for rate in (0.0, FAST, FAST + 1, math.inf)]
    assert found == [slowly, slowly, fast, fast]


def test_how_fast_records_come_is_told_by_two_looks() -> None:
    inflow = Inflow()
    assert inflow.rate(1000, 50.0) == math.inf
    assert inflow.rate(1500, 50.1) == math.inf, "too soon to tell"
    assert inflow.rate(2000, 60.0) == 100
    assert inflow.rate(9000, 60.1) == 100
    assert inflow.rate(2000, 70.0) == 0


@pytest.mark.parametrize(
    ("behind", "expected"),
    [
        (standing(0), "rest"),
        (standing(100), "rest"),
        (standing(GATHER_RECORDS), "leisure"),
        (standing(GATHER_RECORDS, position=1), "rest"),
        (standing(1000, size=300_000.0), "leisure"),
        (standing(1000, position=500, first=1), "write"),
        (standing(1000, position=900, first=1), "rest"),
        (standing(1000, position=100, first=1), "hurry"),
        (standing(1000, position=100, first=500), "hurry"),
    ],
)
def test_it_is_written_when_much_has_gathered_or_retention_is_near(behind: TableStanding, expected: str) -> None:
    assert urgency([behind], SETTINGS, hours_since=0.0, asked=False) == expected


def test_it_is_written_once_a_day_and_when_somebody_asks() -> None:
    assert urgency([standing(1)], SETTINGS, hours_since=25.0, asked=False) == "leisure"
    assert urgency([standing(1)], SETTINGS, hours_since=0.0, asked=True) == "write"
    assert urgency([standing(0)], SETTINGS, hours_since=25.0, asked=True) == "rest"


def test_short_retention_makes_it_write_more_often() -> None:
    assert urgency([standing(1)], Settings(retention_hours=2), hours_since=0.6, asked=False) == "leisure"


def test_what_retention_took_before_it_was_written_is_told() -> None:
    found = next_ranges({0: Retained(10, 20), 1: Retained(5, 9)}, {0: 4, 1: None}, most=100)
    assert found.ranges == {0: Range(10, 20), 1: Range(5, 9)}
    assert found.lost == [LostRecords(0, 4, 10)]


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


def file(day: int, mib: float, hour: int = 12, table: TableName = "events") -> DataFile:
    newest = datetime(2026, 11, day, hour, tzinfo=UTC)
    return DataFile(table, newest.date(), int(mib * MIB), newest)


def test_days_that_are_too_old_are_removed() -> None:
    files = [file(day, 1) for day in (1, 10, 17)]
    assert plan(files, TODAY, days=8, mib=100) == TableUpkeep(datetime(2026, 11, 10, tzinfo=UTC), ())
    assert plan(files[1:], TODAY, days=8, mib=100).remove_before is None


def test_the_oldest_days_go_where_there_is_no_room() -> None:
    files = [*(file(day, 40) for day in (14, 15, 16)), file(17, 30, table="attempts")]
    assert plan(files, TODAY, days=30, mib=100).remove_before == datetime(2026, 11, 16, tzinfo=UTC)


def test_what_will_be_removed_follows_from_what_is_written() -> None:
    noon, hour = datetime(2026, 11, 17, 12, tzinfo=UTC), timedelta(hours=1)
    files = [*(file(day, 40) for day in (14, 15)), file(16, 8), file(17, 10)]
    assert plan_ahead(files, noon, hour, days=30, mib=99).remove_before is None, "half a MiB an hour"
    assert plan_ahead(files, noon, hour, days=30, mib=98).remove_before == datetime(2026, 11, 15, tzinfo=UTC)
    late = datetime(2026, 11, 17, 23, 30, tzinfo=UTC)
    assert plan_ahead(files, late, hour, days=4, mib=999).remove_before == datetime(2026, 11, 15, tzinfo=UTC)
    assert plan_ahead(files, noon, hour, days=4, mib=999).remove_before is None


def test_what_is_removed_soon_is_known_by_the_tables(tmp_path: Path) -> None:
    settings, now = Settings(data_dir=tmp_path, history_days=2), datetime.fromtimestamp(NOON / 1000, UTC)
    assert removed_soon(settings, now, timedelta(hours=1)) == 0.0
    write(tmp_path / "history", EVENTS, [event(1, "a", after_ms=-24 * 3600_000), event(2, "b")])
    assert removed_soon(settings, now, timedelta(hours=1)) == 0.0
    tomorrow = datetime(2026, 11, 17, tzinfo=UTC).timestamp()
    assert removed_soon(settings, now + timedelta(hours=11.5), timedelta(hours=1)) == tomorrow
    assert KeptEvents(settings).lasting(tomorrow) == {0: (Stretch(2, 3),)}
    assert KeptEvents(settings).lasting(0.0) == {0: (Stretch(1, 3),)}
    assert KeptEvents(settings).lasting(tomorrow + 24 * 3600) == {}


def test_of_a_day_that_is_too_much_by_itself_the_newest_stays() -> None:
    day = [file(17, 30, hour) for hour in (3, 9, 12)]
    assert plan(day, TODAY, days=30, mib=100).remove_before is None
    beyond = datetime(2026, 11, 17, 3, tzinfo=UTC) + timedelta(milliseconds=1)
    assert plan([file(16, 1), *day], TODAY, days=30, mib=70).remove_before == beyond
    assert plan(day[2:], TODAY, days=30, mib=10).remove_before is None
    untold = replace(day[0], newest=None)
    nine = datetime(2026, 11, 17, 9, tzinfo=UTC) + timedelta(milliseconds=1)
    assert plan([*day, untold], TODAY, days=30, mib=70).remove_before == nine, "its bytes count, its age is not known"
    assert plan([untold] * 4, TODAY, days=30, mib=70).remove_before is None


def test_many_small_files_of_a_day_are_put_together() -> None:
    small = [file(17, 0.001, table="attempts")] * MANY_SMALL
    assert plan(small, TODAY, days=30, mib=100).compact == (("attempts", TODAY),)
    assert plan(small[1:], TODAY, days=30, mib=100).compact == ()
    assert plan([file(17, 20)] * 40, TODAY, days=30, mib=4000).compact == ()
