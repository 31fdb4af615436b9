"""What came last is answered from the newest records alone where they are enough, and from everything where not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from penstock.history.reader import history as reader
from penstock.history.reader.history import History
from penstock.history.reader.questions import EventFilter
from penstock.history.schema.columns import EVENTS
from penstock.kafka.ranges import LogRecord
from penstock.settings import Settings
from tests.written import KeptRecords, event, write


class Counted(KeptRecords):
    """Counts what is read of it."""

    read_records = 0

    def read(self, topic: str, starts: Mapping[int, int], ends: Mapping[int, int]) -> Iterator[list[LogRecord]]:
        for records in super().read(topic, starts, ends):
            self.read_records += len(records)
            yield records


def ids_of(kafka: KeptRecords, folder: Path, wanted: EventFilter) -> list[str]:
    with History(Settings(data_dir=folder, partitions=2), lambda _: kafka) as history:
        return [one.id for one in history.events(wanted)]


def steady(count: int) -> list[LogRecord]:
    """An event each millisecond, in two partitions in turn."""
    return [event(n // 2, f"e{n}", partition=n % 2, after_ms=n, kind=f"kind{n % 3}") for n in range(count)]


def test_the_newest_records_are_enough_for_the_newest_events(tmp_path: Path) -> None:
    records = steady(20_000)
    kafka = Counted(events=records)
    assert ids_of(kafka, tmp_path, EventFilter(limit=50)) == [f"e{n}" for n in range(19_999, 19_949, -1)]
    assert kafka.read_records == 2 * reader.LAST_RECORDS
    kafka = Counted(events=records)
    wanted = EventFilter(limit=50, type="kind1", where="data is not null")
    assert ids_of(kafka, tmp_path, wanted) == [f"e{n}" for n in range(19_999, 19_849, -1) if n % 3 == 1]
    assert kafka.read_records == 2 * reader.LAST_RECORDS


def test_where_they_are_not_enough_everything_is_read(tmp_path: Path) -> None:
    records = steady(4_000)
    records[10] = event(5, "rare", partition=0, after_ms=10, kind="rare")
    assert ids_of(KeptRecords(events=records), tmp_path, EventFilter(limit=2, type="rare")) == ["rare"]
    write(tmp_path / "history", EVENTS, records[:3_999])
    assert ids_of(KeptRecords(events=records), tmp_path, EventFilter(limit=2)) == ["e3999", "e3998"]


def test_a_partition_in_which_the_order_is_another_is_read_whole(tmp_path: Path) -> None:
    """An ingress that was cut off sends late what came before."""
    late = [event(n, f"late{n}", partition=0, after_ms=5_000) for n in range(1)]
    ahead = [event(n, f"a{n}", partition=0, after_ms=n) for n in range(1, 3_000)]
    other = [event(n, f"b{n}", partition=1, after_ms=n) for n in range(100)]
    assert ids_of(KeptRecords(events=[*late, *ahead, *other]), tmp_path, EventFilter(limit=1500))[0] == "late0"


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 400), st.integers(0, 100)), max_size=60), st.integers(1, 9))
def test_the_answer_is_the_same_as_from_everything(came: list[tuple[int, int, int]], limit: int) -> None:
    """Of records in the order of their arrival, but for what ingresses differ by."""
    offsets, now, records = [0, 0], 0, []
    for number, (partition, pause, early) in enumerate(came):
        now += pause
        records.append(event(offsets[partition], f"e{number}", partition=partition, after_ms=now - early))
        offsets[partition] += 1
    folder = Path("/nonexistent/of/no/table")
    whole = ids_of(KeptRecords(events=records), folder, EventFilter(limit=1000))
    few, reader.LAST_RECORDS = reader.LAST_RECORDS, 5
    try:
        found = ids_of(KeptRecords(events=records), folder, EventFilter(limit=limit))
    finally:
        reader.LAST_RECORDS = few
    assert found == whole[:limit]
