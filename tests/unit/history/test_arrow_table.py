"""Tables that the process writes itself: rows and positions in one commit, and nothing of what fails."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from penstock.history.reader.history import History
from penstock.history.reader.table_events import KeptEvents, Stretch
from penstock.history.schema.columns import ATTEMPTS, EVENTS, GAPS, VERSION, VERSION_ID, Column, HistoryProblem, Table
from penstock.history.writer import arrow_table
from penstock.history.writer import arrow_table as day_file
from penstock.history.writer.arrow_table import STEP_RECORDS, ArrowTable
from penstock.history.writer.batches import Batches
from penstock.history.writer.plan import WriterPace
from penstock.history.writer.stored_table import Conflict, Range
from penstock.kafka.ranges import LogRecord
from penstock.settings import Settings
from tests.written import KeptRecords, attempt, event, write

A_DAY_MS = 86_400_000


class Killed(RuntimeError):
    """Stands for a process that ends between writing and committing."""


class World:
    """A Kafka that holds a list, and a folder."""

    def __init__(self, folder: Path) -> None:
        self.settings = Settings(data_dir=folder, partitions=2)
        self.events: list[LogRecord] = []
        self.attempts: list[LogRecord] = []

    def add(self, count: int, partition: int = 0, after_ms: int = 0) -> None:
        first = len(self.events)
        self.events += [
            event(number, f"e{number}", partition=partition, after_ms=after_ms + number)
            for number in range(first, first + count)
        ]

    def kafka(self, _: Settings | None = None) -> KeptRecords:
        return KeptRecords(events=self.events, attempts=self.attempts)

    def table(self, table: Table = EVENTS) -> ArrowTable:
        made = ArrowTable(self.settings, table, self.kafka)
        made.ensure()
        return made

    def write(self, before_commit: Callable[[], None] = lambda: None, table: Table = EVENTS, most: int = 1000) -> int:
        written = Batches(self.table(table), table, before_commit=before_commit, most=most).write(
            self.kafka().retained(table.topic)
        )
        return written.records if written else 0

    def delta(self, table: Table = EVENTS) -> DeltaTable:
        return DeltaTable(f"{self.settings.history_root}/{table.name}")

    def rows(self) -> int:
        return int(self.delta().to_pyarrow_table().num_rows)

    def files(self) -> list[Path]:
        return list(Path(self.settings.history_root).rglob("*.parquet"))

    def asked(self) -> list[str]:
        with History(self.settings, self.kafka) as history:
            return [row["id"] for row in history.sql("select id from events order by id").to_pylist()]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_rows_and_the_position_after_them_are_one_commit(world: World) -> None:
    world.add(5)
    assert world.write() == 5
    assert world.delta().transaction_version(EVENTS.position(0)) == 5
    assert world.delta().transaction_version(VERSION_ID) == VERSION
    world.add(3)
    assert world.write() == 3
    assert world.write() == 0
    assert world.asked() == [f"e{number}" for number in range(8)]


def test_a_writer_that_dies_before_its_commit_leaves_nothing_out_and_nothing_twice(world: World) -> None:
    def dies() -> None:
        raise Killed

    world.add(5)
    with pytest.raises(Killed):
        world.write(dies)
    assert world.rows() == 0
    assert len(world.files()) == 1
    assert world.asked() == [f"e{number}" for number in range(5)]
    world.write()
    assert world.asked() == [f"e{number}" for number in range(5)]


def test_of_two_writers_with_the_same_records_one_commits(world: World) -> None:
    world.add(5)
    assert world.write(lambda: assert_written(world, 5)) == 0
    assert world.rows() == 5
    assert len(world.files()) == 1


def assert_written(world: World, records: int) -> None:
    assert world.write() == records


def test_somebody_who_tidies_up_meanwhile_does_not_stand_in_the_way(world: World) -> None:
    for _ in range(3):
        world.add(2)
        world.write()
    world.add(2)
    assert world.write(lambda: world.table().compact(date(2026, 11, 17))) == 2
    assert world.asked() == [f"e{number}" for number in range(8)]


def test_a_conflict_is_told_apart(world: World) -> None:
    world.add(1)
    late = world.table().begin([EVENTS.position(0)])
    world.write()
    with pytest.raises(Conflict, match="Concurrent transaction failed"):
        late.finish({EVENTS.position(0): 1})


def test_each_day_has_a_file_of_its_own(world: World) -> None:
    world.add(2)
    world.add(2, after_ms=A_DAY_MS)
    world.write()
    assert sorted(path.parent.name for path in world.files()) == ["day=2026-11-17", "day=2026-11-18"]


def test_attempts_are_written_too(world: World) -> None:
    world.add(2)
    world.attempts = [attempt(number, one) for number, one in enumerate(world.events)]
    assert world.write(table=ATTEMPTS) == 2
    with History(world.settings, lambda _: KeptRecords()) as history:
        found = history.sql("select id, result, duration from attempts order by id").to_pylist()
    assert found == [{"id": f"e{number}", "result": "delivered", "duration": 0.05} for number in range(2)]


def test_markers_alone_move_the_position(world: World) -> None:
    world.events = [LogRecord(0, 0, 1_794_916_800_000, None, [("penstock_marker", b"1")], None)]
    assert world.write() == 1
    assert world.files() == []
    assert world.delta().transaction_version(EVENTS.position(0)) == 1


def test_large_steps_are_several_row_groups(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(day_file, "GROUP_BYTES", 1)
    world.add(4)
    table = world.table()
    commit = table.begin([EVENTS.position(0)])
    commit._add(world.events[:2])
    commit._add(world.events[2:])
    for file in commit._files.values():
        file.finish()
    (path,) = world.files()
    assert pq.read_metadata(path).num_row_groups == 2
    told = day_file.statistics(pq.read_metadata(path), EVENTS)
    assert (told["numRecords"], told["minValues"]["offset"], told["maxValues"]["offset"]) == (4, 0, 3)


def test_what_is_noted_of_a_file_encloses_its_rows(world: World) -> None:
    world.add(3)
    world.attempts = [attempt(number, one, at=one.at_ms / 1000 + 0.0004567) for number, one in enumerate(world.events)]
    world.write()
    world.write(table=ATTEMPTS)
    (events,) = pa.table(world.delta().get_add_actions(flatten=True)).to_pylist()
    assert events["num_records"] == 3
    assert (events["min.offset"], events["max.offset"]) == (0, 2)
    assert events["max.arrival"] == datetime(2026, 11, 17, 12, 0, 0, 2000, tzinfo=UTC)
    (file,) = Path(world.settings.history_root, ATTEMPTS.name).rglob("*.parquet")
    told = day_file.statistics(pq.read_metadata(file), ATTEMPTS)
    assert (told["minValues"]["start"], told["maxValues"]["start"]) == (
        "2026-11-17T12:00:00.000Z",
        "2026-11-17T12:00:00.003Z",
    )


def test_what_fails_on_the_way_leaves_no_file(world: World) -> None:
    world.add(5)
    table = ArrowTable(world.settings, EVENTS, lambda _: Torn(world.events))
    table.ensure()
    with pytest.raises(OSError, match="No space"):
        Batches(table, EVENTS).write(world.kafka().retained(EVENTS.topic))
    assert world.files() == []


def test_what_fails_after_the_commit_leaves_what_it_names(world: World) -> None:
    world.add(5)
    commit = world.table().begin([EVENTS.position(0)])
    commit.write({0: Range(0, 5)})
    commit._delta = FailsAfterwards(commit._delta)  # type: ignore[assignment]
    with pytest.raises(OSError, match="No space"):
        commit.finish({EVENTS.position(0): 5})
    assert (world.rows(), world.write()) == (5, 0)


class FailsAfterwards:
    """A table whose checkpoint cannot be written after a commit."""

    def __init__(self, delta: DeltaTable) -> None:
        self._delta = delta

    def __getattr__(self, name: str) -> Any:
        return getattr(self._delta, name)

    def create_write_transaction(self, *arguments: Any, **options: Any) -> None:
        self._delta.create_write_transaction(*arguments, **options)
        raise OSError(28, "No space left on device")


class Torn(KeptRecords):
    """Ends in the middle, as a disk that is full does."""

    def __init__(self, events: Sequence[LogRecord]) -> None:
        super().__init__(events=events)

    def read(self, topic: str, starts: Mapping[int, int], ends: Mapping[int, int]) -> Iterator[list[LogRecord]]:
        yield self.topics[EVENTS.topic][:2]
        raise OSError(28, "No space left on device")


def test_old_days_go_and_files_with_them(world: World) -> None:
    for day in range(3):
        world.add(2, after_ms=day * A_DAY_MS)
        world.write()
    table = world.table()
    table.remove_before(datetime(2026, 11, 19, tzinfo=UTC))
    assert world.rows() == 2
    table.vacuum(0)
    assert len(world.files()) == 1
    assert world.delta().transaction_version(EVENTS.position(0)) == 6


def test_the_oldest_of_a_day_goes_where_it_is_too_much(world: World) -> None:
    for minute in range(3):
        world.add(2, after_ms=minute * 60_000)
        world.write()
        world.attempts.append(attempt(minute, world.events[-1]))
        world.write(table=ATTEMPTS)
    newest = min(file.newest for file in world.table().files() if file.newest is not None)
    for table in (EVENTS, ATTEMPTS):
        world.table(table).remove_before(newest + timedelta(seconds=1))
    assert world.rows() == 4
    assert world.delta(ATTEMPTS).to_pyarrow_table().num_rows == 2
    assert world.delta().transaction_version(EVENTS.position(0)) == 6
    world.add(1)
    assert world.write() == 1
    assert world.asked() == [f"e{number}" for number in range(2, 7)]


def test_the_last_room_of_a_disk_is_left_alone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.add(5)
    table = world.table()
    monkeypatch.setattr(arrow_table, "SPARE_MIB", 2**40)
    with pytest.raises(HistoryProblem, match="are free at"):
        world.write()
    table.vacuum(0)
    assert world.asked() == [f"e{number}" for number in range(5)]
    monkeypatch.undo()
    assert world.write() == 5


def test_positions_outlive_the_log_that_they_were_written_in(world: World) -> None:
    for _ in range(3):
        world.add(2)
        world.write()
    world.delta().create_checkpoint()
    log = Path(world.settings.history_root, EVENTS.name, "_delta_log")
    for file in sorted(log.glob("0*.json"))[:-1]:
        file.unlink()
    world.add(1)
    assert world.write() == 1
    assert world.asked() == [f"e{number}" for number in range(7)]


def test_a_table_of_a_newer_version_is_left_alone(world: World) -> None:
    write(Path(world.settings.history_root), EVENTS, [event(0, "e0")], version=99)
    with pytest.raises(HistoryProblem, match="newer version of penstock"):
        world.table()


def test_a_table_of_somebody_else_is_left_alone(world: World) -> None:
    DeltaTable.create(f"{world.settings.history_root}/events", pa.schema([("mine", pa.string())]))
    with pytest.raises(HistoryProblem, match="that penstock did not create"):
        world.table()


def test_a_table_that_lacks_a_column_gets_it(world: World) -> None:
    world.add(1)
    world.write()
    longer = EVENTS._replace(columns=(*EVENTS.columns, Column("weight", "double", "")))
    ArrowTable(world.settings, longer).ensure()
    assert json.loads(world.delta().schema().to_json())["fields"][-1]["name"] == "weight"
    world.add(1)
    assert world.write() == 1
    assert world.delta().to_pyarrow_table().column("weight").null_count == 2


def test_a_folder_that_is_gone_is_begun_anew(world: World) -> None:
    table = ArrowTable(world.settings, EVENTS)
    assert table.ensure()
    assert not table.ensure()


def test_a_writer_with_time_rests_between_steps(tmp_path: Path) -> None:
    world, rests, used = World(tmp_path), list[float](), itertools.count()
    pace = WriterPace(0.25, now=lambda: 0.0, used=lambda: float(next(used)), sleep=rests.append)
    world.add(2 * STEP_RECORDS + 1)
    table = ArrowTable(world.settings, EVENTS, world.kafka, pace)
    table.ensure()
    written = Batches(table, EVENTS).write(world.kafka().retained(EVENTS.topic))
    assert written is not None
    assert (written.records, world.rows()) == (2 * STEP_RECORDS + 1, 2 * STEP_RECORDS + 1)
    assert rests == [4.0, 4.0, 4.0]


def test_where_something_is_missing_is_noted_with_the_rows_that_follow(world: World) -> None:
    world.add(5)
    assert world.write() == 5
    world.add(10)
    del world.events[:8]  # Kafka has removed 5, 6 and 7, which were not written
    world.write()
    kept = KeptEvents(world.settings)
    assert (kept.stretch(0, 0), kept.stretch(0, 5), kept.stretch(0, 9)) == (
        Stretch(0, 5),
        Stretch(8, 15),
        Stretch(9, 15),
    )
    assert kept.lasting(0.0) == {0: (Stretch(0, 5), Stretch(8, 15))}
    assert world.write() == 0
    kept.close()


def test_the_newest_gaps_are_remembered_and_those_of_each_partition_apart(world: World) -> None:
    for number in range(GAPS + 2):
        world.events = [event(10 * number + offset, "e", partition=1) for offset in (0, 1)]
        world.write()
    kept = KeptEvents(world.settings)
    assert len(kept.lasting(0.0)[1]) == GAPS + 1
    assert kept.stretch(1, 25) == Stretch(30, 32)
    assert kept.stretch(0, 0) is None
    kept.close()
