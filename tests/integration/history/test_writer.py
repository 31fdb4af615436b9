"""The writer on a real Kafka and with real Delta tables: each record once, whatever ends it at whatever moment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.engine.history.progress_file import HistoryProgress
from penstock.engine.history.writer import HistoryWriter, by_arrow, by_spark
from penstock.history.reader.history import History
from penstock.history.reader.questions import EventFilter
from penstock.history.schema import frames
from penstock.history.schema.columns import EVENTS, VERSION_ID, HistoryProblem
from penstock.history.writer import batches, upkeep
from penstock.kafka.ranges import RangeReader, RecordsGone
from penstock.settings import Settings
from tests.integration.history.topics_of_test import remove_records, send_attempts, send_events
from tests.waiting import eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Killed(RuntimeError):
    """Stands for a process that ends between writing and committing: nothing is tidied up after it."""


def nothing() -> None:
    """What happens before most commits."""


def counted(settings: Settings, kind: str) -> Counter[str]:
    with History(settings) as history:
        found = history.sql(f"select id from events where type = '{kind}'").to_pylist()
    return Counter(row["id"] for row in found)


def write(settings: Settings, spark: SparkSession | None = None, before_commit: Callable[[], None] = nothing) -> int:
    """Writes all that there is, by Spark or by this process; how many records."""
    store_of = by_arrow(settings) if spark is None else by_spark(settings, spark)
    return HistoryWriter(settings, store_of, before_commit=before_commit).write()


def dies() -> None:
    raise Killed


def test_each_event_once_over_writers_that_die_before_their_commit(settings: Settings) -> None:
    ids: list[str] = []
    for round_ in range(3):
        ids += send_events(settings, 40, "killed")
        assert counted(settings, "killed") == Counter(ids)
        with pytest.raises(Killed):
            write(settings, before_commit=dies)
        assert counted(settings, "killed") == Counter(ids)
        if round_ % 2:
            assert write(settings) > 0
            assert counted(settings, "killed") == Counter(ids)
    assert write(settings) > 0
    assert write(settings) == 0
    assert counted(settings, "killed") == Counter(ids)
    with History(settings) as history:
        events, attempts = history.state()
    assert (events.behind, attempts.behind) == (0, 0)


def test_large_backlogs_are_written_in_several_commits(settings: Settings) -> None:
    ids = send_events(settings, 100, "backlog")
    stored = by_arrow(settings)(EVENTS)
    stored.ensure()
    reader = RangeReader(settings)
    retained = reader.retained(EVENTS.topic)
    reader.close()
    most = sum(kept.end - kept.first for kept in retained.values()) // 5  # with what other tests have sent
    table = batches.Batches(stored, EVENTS, most=most)
    commits = 0
    while (written := table.write(retained)) is not None:
        commits += 1
        assert written.records <= most + settings.partitions
        if not written.rest:
            break
    assert commits > 3
    assert counted(settings, "backlog") == Counter(ids)


def test_only_committed_attempts_are_written_as_they_were_read_from_kafka(settings: Settings) -> None:
    send_attempts(settings, send_events(settings, 12, "agreed"), broken=True)
    before = everything(settings)
    write(settings)
    assert everything(settings) == before
    with History(settings) as history:
        assert history.state()[1].behind == 0
    assert not [row for row in before[1] if row["id"].startswith("aborted")]


def everything(settings: Settings) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """All rows of both tables, up to this moment."""
    with History(settings) as history:
        events = history.sql('select * from events order by partition, "offset"').to_pylist()
        return events, history.sql("select * from attempts order by partition, record").to_pylist()


def test_what_retention_takes_before_it_is_written_is_told(settings: Settings) -> None:
    ids = send_events(settings, 20, "kept")
    write(settings)
    later = send_events(settings, 20, "kept")
    with History(settings) as history:
        before = history.state()[0].positions
    reader = RangeReader(settings, passing_over_gone=False)
    try:
        end = reader.retained(EVENTS.topic)[0].end
        remove_records(settings, EVENTS.topic, {0: end})
        with pytest.raises(RecordsGone):
            list(reader.read(EVENTS.topic, {0: before[0]}, {0: end}))
    finally:
        reader.close()
    told: list[batches.Written] = []
    HistoryWriter(settings, by_arrow(settings), told.append).write()
    assert sum(one.lost for one in told) == end - before[0]
    in_partition_0 = later[:: settings.partitions]
    assert counted(settings, "kept") == Counter(ids) + Counter(later) - Counter(in_partition_0)


@pytest.mark.long
def test_spark_and_this_process_take_turns_with_one_table(delta: SparkSession, settings: Settings) -> None:
    """Spark's way keeps what the other keeps: each record once, the same rows, one of two writers, old days removed."""
    ids = send_events(settings, 20, "turns")
    assert write(settings) > 0
    ids += send_events(settings, 20, "turns")
    send_attempts(settings, ids, broken=True)
    before = everything(settings)
    with pytest.raises(Killed):
        write(settings, delta, dies)
    assert everything(settings) == before
    assert write(settings, delta) > 0
    assert everything(settings) == before
    ids += send_events(settings, 20, "turns")
    overtaken: list[int] = []
    write(settings, delta, before_commit=lambda: overtaken.append(write(settings)))
    assert overtaken[0] > 0
    assert counted(settings, "turns") == Counter(ids)
    with History(settings) as history:
        positions = history.state()[0].positions
        assert history.state()[0].behind == 0
    stored = by_spark(settings, delta)(EVENTS)
    assert sorted(stored.files()) == sorted(by_arrow(settings)(EVENTS).files())
    stored.compact(datetime.now(UTC).date())
    assert counted(settings, "turns") == Counter(ids)
    newest = max(file.newest for file in stored.files() if file.newest is not None)
    stored.remove_before(newest)
    assert 0 < sum(counted(settings, "turns").values()) < len(ids)
    stored.remove_before(newest + timedelta(milliseconds=1))
    with History(settings) as history:
        assert history.sql("select count(*) as n from events").to_pylist() == [{"n": 0}]
        assert history.state()[0].positions == positions
    stored.begin([VERSION_ID]).finish({VERSION_ID: 99})
    for way in (by_spark(settings, delta), by_arrow(settings)):
        with pytest.raises(HistoryProblem, match="newer version of penstock"):
            HistoryWriter(settings, way)


@pytest.mark.long
def test_rows_become_the_records_that_they_were_made_of(delta: SparkSession, settings: Settings) -> None:
    send_events(settings, 8, "again")
    write(settings)
    place = f"{settings.history_root}/events"
    made = frames.records_of(delta.read.format("delta").load(place).where("type = 'again'"))
    reader = RangeReader(settings)
    retained = reader.retained(EVENTS.topic)
    ends = {number: kept.end for number, kept in retained.items()}
    starts = {number: kept.first for number, kept in retained.items()}
    stored = {
        (one.partition, one.offset): one
        for records in reader.read(EVENTS.topic, starts, ends)
        for one in records
        if dict(one.headers).get("ce_type") == b"again"
    }
    reader.close()
    found = {(row.partition, row.offset): row for row in made.collect()}
    assert found.keys() == stored.keys()
    for place_, row in found.items():
        one = stored[place_]
        assert sorted((header.key, bytes(header.value)) for header in row.headers) == sorted(one.headers)
        assert (bytes(row.value), row.key) == (one.value, one.key)


def test_small_files_are_put_together(settings: Settings) -> None:
    for _ in range(upkeep.MANY_SMALL):
        send_events(settings, 4, "small")
        write(settings)
    with History(settings) as history:
        before = history.state()[0]
        rows = history.sql("select count(*) as n from events").to_pylist()
    HistoryWriter(settings, by_arrow(settings)).maintain()
    with History(settings) as history:
        after = history.state()[0]
        assert history.sql("select count(*) as n from events").to_pylist() == rows
    assert before.files >= upkeep.MANY_SMALL
    assert after.files < before.files
    assert after.positions == before.positions


def test_a_process_that_is_killed_at_any_moment_leaves_nothing_out_and_nothing_twice(settings: Settings) -> None:
    ids = send_events(settings, 3000, "process")
    file = settings.data_dir / "settings.json"
    file.write_text(settings.model_dump_json())
    command = [sys.executable, "-m", "penstock.engine.history.run_batch", "--settings", str(file)]
    killed = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    events = Path(settings.history_root) / "events"
    # As soon as the first file of rows is there: its commit is a moment away, or was a moment ago.
    eventually(lambda: any(events.rglob("*.parquet")), seconds=300, every=0.02)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    assert counted(settings, "process") == Counter(ids)
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert counted(settings, "process") == Counter(ids)
    assert HistoryProgress.read(settings.data_dir).positions["events"]
    with History(settings) as history:
        assert len(history.events(EventFilter(type="process", limit=5000))) == len(ids)
        assert history.state()[0].behind == 0


def test_a_folder_that_cannot_be_written_is_told_in_a_line(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "blocked").write_text("a file, not a folder")
    file = settings.data_dir / "settings.json"
    file.write_text(settings.model_copy(update={"history_uri": str(tmp_path / "blocked")}).model_dump_json())
    reading, writing = os.pipe()
    command = [sys.executable, "-m", "penstock.engine.history.run_batch", "--settings", str(file)]
    done = subprocess.run(
        [*command, "--notify-fd", str(writing)], pass_fds=(writing,), capture_output=True, timeout=300, check=False
    )
    os.close(writing)
    with os.fdopen(reading) as told:
        lines = told.read().splitlines()
    assert done.returncode == 1
    assert "blocked" in lines[-1], lines
