"""What the commands of the history take and print."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
import typer
from typer.testing import CliRunner

from penstock.cli import app, result_formats, sql, trace
from penstock.cli.history import with_progress
from penstock.history.reader.answers import Attempt, Event, Traced
from penstock.operations.times import moment, window
from penstock.runtime.errors import UserError

NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)
ANSWER = pa.table({"type": ["a", None], "count": [3, 10], "data": [b"text", b"\xff"]})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90s", NOW - timedelta(seconds=90)),
        ("1h30m", NOW - timedelta(minutes=90)),
        ("7d", NOW - timedelta(days=7)),
        ("2026-11-17T10:00:00Z", NOW - timedelta(hours=2)),
        ("2026-11-17T12:00:00+02:00", NOW - timedelta(hours=2)),
        ("1.5h", NOW - timedelta(minutes=90)),
        ("PT2H", NOW - timedelta(hours=2)),
        ("earliest", datetime(1970, 1, 1, tzinfo=UTC)),
        ("99999999w", datetime(1970, 1, 1, tzinfo=UTC)),
    ],
)
def test_times_are_spans_or_moments(text: str, expected: datetime) -> None:
    assert moment(text, NOW) == expected


def test_a_moment_of_another_zone_is_of_its_day_in_utc() -> None:
    """Days of tables are chosen by it."""
    found = moment("2026-11-18T01:30:00+14:00", NOW)
    assert (found.date().isoformat(), found.utcoffset()) == ("2026-11-17", timedelta())


@pytest.mark.parametrize("text", ["", "yesterday", "1", "1h and more", "-1h"])
def test_other_times_are_refused(text: str) -> None:
    with pytest.raises(UserError, match="Invalid time"):
        moment(text, NOW)


def test_a_window_in_the_future_or_backwards_is_refused() -> None:
    with pytest.raises(UserError, match="future"):
        window("2999-01-01T00:00:00Z", None)
    with pytest.raises(UserError, match="not after"):
        window("1h", "2h")


def test_an_answer_as_table_csv_and_json() -> None:
    assert result_formats.table(ANSWER).splitlines() == [
        "type  count  data",
        "a         3  text",
        "         10  /w==",
        "(2 rows)",
    ]
    assert result_formats.csv(ANSWER) == "type,count,data\na,3,text\n,10,/w==\n"
    assert [json.loads(line) for line in result_formats.to_json(ANSWER).splitlines()] == [
        {"type": "a", "count": 3, "data": "text"},
        {"type": None, "count": 10, "data": "/w=="},
    ]


def test_maps_are_shown_by_their_keys() -> None:
    kept = pa.table({"extensions": pa.array([[("region", "eu")]], pa.map_(pa.string(), pa.string()))})
    assert json.loads(result_formats.to_json(kept)) == {"extensions": {"region": "eu"}}
    assert result_formats.table(kept).splitlines()[1] == '{"region": "eu"}'
    assert result_formats.csv(kept) == 'extensions\n"{""region"": ""eu""}"\n'


def test_an_answer_in_parquet_can_be_read_again(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    result_formats.write(ANSWER, result_formats.Format.PARQUET, tmp_path / "answer.parquet")
    assert pq.read_table(tmp_path / "answer.parquet").to_pylist() == ANSWER.to_pylist()


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be written"):
        result_formats.write(ANSWER, result_formats.Format.CSV, tmp_path / "no" / "answer.csv")


def test_a_question_is_answered_beside_its_bar_and_fails_as_it_failed() -> None:
    looked = threading.Event()

    def progress() -> float:
        looked.set()
        return 50.0

    def answer() -> pa.Table:
        assert looked.wait(60), "how far it is was asked meanwhile"
        return ANSWER

    assert with_progress(answer, progress, lambda: None) is ANSWER

    def fail() -> pa.Table:
        raise UserError("The statement failed: no such column")

    with pytest.raises(UserError, match="no such column"):
        with_progress(fail, progress, lambda: None)


def test_a_question_that_is_interrupted_has_ended_before_its_history_is_closed() -> None:
    interrupted, ended = threading.Event(), threading.Event()

    def ask() -> pa.Table:
        assert interrupted.wait(60)
        ended.set()
        return ANSWER

    def progress() -> float:
        raise KeyboardInterrupt

    with pytest.raises(typer.Exit) as left:
        with_progress(ask, progress, interrupted.set)
    assert left.value.exit_code == 130
    assert ended.is_set()


def test_what_spark_says_becomes_a_line() -> None:
    parsed = (
        "\n[PARSE_SYNTAX_ERROR] Syntax error at or near 'selct'. SQLSTATE: 42601 (line 1, pos 0)\n\n== SQL ==\nselct"
    )
    assert sql.message_of(ValueError(parsed)) == "[PARSE_SYNTAX_ERROR] Syntax error at or near 'selct'."
    assert sql.message_of(ValueError("")) == "ValueError"


def test_a_trace_tells_attempts_answers_and_replies() -> None:
    event = Event(0, 7, NOW, "t", "e1", "/shop", "order", "1.0", None, None, None, None, {}, b"{}", None)
    start, route = NOW + timedelta(milliseconds=5), ("r", "Trigger", "default", "orders")
    failed = Attempt(0, 7, 0, *route, "subscriber", 1, "http://a/", start, 0.01, 503, "retry", "HTTP status 503", NOW)
    dead = Attempt(0, 7, 1, *route, "deadletter", 1, "http://b/", start, 0.01, None, "dropped", "refused", None)
    child = Traced(Event(0, 8, NOW, "t", "e2", "/shop", "reply", "1.0", None, None, None, None, {}, None, None))
    lines = list(trace.lines_of_traces([Traced(event, (failed, dead), (child,))]))
    assert lines == [
        "2026-11-17 12:00:00.000 UTC  order  e1  from /shop",
        "  stored in partition 0 at offset 7",
        "  +5.0 ms  trigger default/orders #1 -> http://a/  503 in 10.0 ms: retrying, next at 2026-11-17 12:00:00.000",
        "  +5.0 ms  trigger default/orders dead letter sink #1 -> http://b/  no response in 10.0 ms: dropped (refused)",
        "  reply",
        "    2026-11-17 12:00:00.000 UTC  reply  e2  from /shop",
        "      stored in partition 0 at offset 8",
        "      no attempts yet: no route matches, or delivery has not started",
    ]
    assert json.loads(json.dumps(trace.to_data(Traced(event, (failed,)))))["attempts"][0]["status"] == 503


def test_of_a_trace_that_is_watched_only_what_is_new_is_printed() -> None:
    assert trace.new_lines(["a", "b"], ["a", "c", "b"]) == ["c"]


@pytest.mark.parametrize("command", [["sql", "select 1"], ["events"], ["trace", "x"]])
def test_without_a_history_the_commands_say_so(command: list[str], tmp_path: Path) -> None:
    result = CliRunner().invoke(app, [*command, "--data-dir", str(tmp_path / "none")])
    assert result.exit_code == 1
    assert "no history" in result.stderr


@pytest.mark.parametrize("command", [["events"], ["trace", "1"], ["sql", "select 1"]])
def test_a_folder_of_another_version_is_a_sentence_and_not_a_traceback(command: list[str], tmp_path: Path) -> None:
    settings = tmp_path / "run" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(json.dumps({"setting_of_another_version": True}))
    ended = CliRunner().invoke(app, [*command, "--data-dir", str(tmp_path)])
    assert ended.exit_code == 1
    assert "was last started by another version of penstock" in ended.output
