"""`penstock sql --engine spark`: answers as DuckDB does, from the tables and the rest of Kafka, and only reads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException

from penstock.cli.sql import SparkQuery, message_of
from penstock.engine.datadir import SETTINGS_FILE
from penstock.engine.history import spark as views
from penstock.engine.history.writer import HistoryWriter, by_arrow
from penstock.history.reader.history import History
from penstock.history.schema.columns import EVENTS, VERSION_ID, HistoryProblem
from penstock.settings import Settings
from tests.integration.history.topics_of_test import send_attempts, send_events

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.long

SAME_IN_BOTH = [
    "select type, count(*) as n from events group by type order by type",
    "select id, arrival, extensions['region'] as region, text from events where type = 'asked' order by id",
    "with e as (select * from events where type = 'asked') select count(*) as n, count(distinct a.record) as attempts "
    "from e join attempts a on a.id = e.id",
    "select id, start, duration, status, result, due from attempts order by partition, record",
]


WRONG = {
    "insert into events select * from events": "InsertIntoStatement",
    "with x as (select * from events) insert into events select * from x": "InsertIntoStatement",
    "drop table events": "DropTable",
    "create table x as select 1": "CreateTableAsSelect",
    "set spark.sql.runSQLOnFiles=true": "SetCommand",
    "select transform(type) using 'cat' as (x) from events": "ScriptTransformation",
    "selct 1": "Syntax error at or near 'selct'",
    "select 1; select 2": "extra input 'select'",
    "select nope from events": "`nope` cannot be resolved",
    "select * from nope": "`nope` cannot be found",
    "select * from parquet.`/etc`": "cannot be found",
    "select reflect('java.lang.System', 'getenv', 'HOME')": "`reflect`",
    "select 1 / 0": "Division by zero",
}
"""Statements, and what is told of them."""


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """A history of its own on the Kafka of all tests, of which the table has a half."""
    ids = send_events(settings, 20, "asked")
    HistoryWriter(settings, by_arrow(settings)).write()
    send_attempts(settings, ids, broken=True)
    send_events(settings, 20, "asked")
    return settings


@pytest.fixture
def asking(delta: SparkSession) -> SparkSession:
    """A session that may be told to read only, which others of this process must not be."""
    return delta.newSession()


def asked(spark: SparkSession, statement: str) -> list[dict[str, Any]]:
    views.check_read_only(spark, statement)
    rows: list[dict[str, Any]] = spark.sql(statement).toArrow().to_pylist()
    return rows


def test_spark_answers_as_duckdb_does(asking: SparkSession, settings: Settings) -> None:
    assert views.create_views(asking, settings) is None
    with History(settings) as history:
        for statement in SAME_IN_BOTH:
            expected = history.sql(statement).to_pylist()
            assert expected
            assert asked(asking, statement) == expected, statement
    assert {row["col_name"] for row in asked(asking, "describe events")} >= {"arrival", "extensions", "text"}


def test_wrong_statements_are_told_in_a_line(asking: SparkSession, settings: Settings) -> None:
    views.create_views(asking, settings)
    for statement, reason in WRONG.items():
        with pytest.raises((HistoryProblem, PySparkException)) as raised:
            asked(asking, statement)
        line = message_of(raised.value)
        assert reason in line, statement
        assert "\n" not in line


def test_a_table_of_a_newer_version_is_told(asking: SparkSession, settings: Settings) -> None:
    by_arrow(settings)(EVENTS).begin([VERSION_ID]).finish({VERSION_ID: 99})
    with pytest.raises(HistoryProblem, match="newer version of penstock"):
        views.create_views(asking, settings)


def command(settings: Settings, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs `penstock sql` on the history of a stack that has run."""
    file = settings.data_dir / SETTINGS_FILE
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(settings.model_dump_json())
    command = [sys.executable, "-m", "penstock.cli", "sql", *words, "--data-dir", str(settings.data_dir)]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=dict(os.environ))


def test_the_command_asks_spark_in_a_process_of_its_own(settings: Settings) -> None:
    ran = command(
        settings,
        "--engine",
        "spark",
        "--format",
        "json",
        "select id, arrival, count(*), count(*) from events group by 1, 2",
    )
    assert ran.returncode == 0, ran.stderr
    rows = [json.loads(line) for line in ran.stdout.splitlines()]
    with History(settings) as history:
        expected = history.sql("select id from events").to_pylist()
    assert Counter(row["id"] for row in rows) == Counter(row["id"] for row in expected)
    assert {row["count(1)_1"] for row in rows} == {1}
    assert all(row["arrival"].endswith("Z") for row in rows)
    assert "Traceback" not in ran.stderr


def test_every_format_and_a_wrong_statement(settings: Settings, tmp_path: Path) -> None:
    statement = "select type, count(*) as n from events where type = 'asked' group by type"
    with History(settings) as history:
        expected = history.sql(statement).to_pylist()
    file = tmp_path / "answer.parquet"
    assert command(settings, statement, "--format", "parquet", "--output", str(file)).returncode == 0
    assert pq.read_table(file).to_pylist() == expected
    count = expected[0]["n"]
    assert command(settings, statement, "--format", "csv").stdout == f"type,n\nasked,{count}\n"
    assert json.loads(command(settings, statement, "--format", "json").stdout) == expected[0]
    assert command(settings, statement).stdout.splitlines()[-1] == "(1 row)"
    wrong = command(settings, "select nope from events")
    assert wrong.returncode == 1
    assert "nope" in wrong.stderr
    assert "Traceback" not in wrong.stderr


def test_a_question_that_has_not_begun_shows_no_progress(settings: Settings) -> None:
    with SparkQuery("select 1", settings) as question:
        assert question.progress() < 0
        question.interrupt()
