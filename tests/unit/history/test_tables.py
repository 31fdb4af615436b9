"""Tables that are not on this machine: how they are reached, and what is told where they cannot be."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from penstock.history.reader.tables import PATIENCE, FileSize, read_table, storage_options, unreadable
from penstock.history.schema.columns import ATTEMPTS, EVENTS, HistoryProblem
from penstock.history.writer.spark_table import file_size
from penstock.settings import Settings

S3A = "spark.hadoop.fs.s3a."


def test_what_spark_is_told_of_s3_holds_here_too() -> None:
    given = {"access.key": "me", "secret.key": "hush", "endpoint": "127.0.0.1:9000", "connection.ssl.enabled": False}
    conf = {S3A + name: value for name, value in given.items()} | {"spark.jars": "x.jar"}
    assert storage_options("s3a://b", conf) == PATIENCE | {
        "aws_access_key_id": "me",
        "aws_secret_access_key": "hush",
        "aws_endpoint_url": "http://127.0.0.1:9000",
        "aws_region": "us-east-1",
        "aws_allow_http": "true",
    }
    assert storage_options("s3://b", {S3A + "endpoint": "s3.example", S3A + "endpoint.region": "eu"}) == PATIENCE | {
        "aws_endpoint_url": "https://s3.example",
        "aws_region": "eu",
    }
    assert storage_options("gs://b", {}) == PATIENCE
    assert storage_options("/folder", conf) == storage_options("file:///folder", conf) == {}


def test_a_scheme_that_nobody_knows_is_told() -> None:
    with pytest.raises(HistoryProblem, match="unknown scheme foo://") as raised:
        read_table(Settings(history_uri="foo://bucket/x"), EVENTS, 1)
    assert "history_uri" in raised.value.remedy


def test_a_place_that_is_not_there_has_no_table(tmp_path: Path) -> None:
    assert read_table(Settings(history_uri=(tmp_path / "none").as_uri()), EVENTS, 1) is None


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("Generic S3 error\n \x1b[31m↳\x1b[0m Client error with status 403 Forbidden: AccessDenied", "credentials"),
        ("Generic S3 error\n \x1b[31m↳\x1b[0m Connection refused (os error 111)", "that the storage is reachable"),
    ],
)
def test_a_place_that_cannot_be_read_is_told_in_a_line(text: str, remedy: str) -> None:
    problem = unreadable("s3a://b/x/events", OSError(text))
    assert remedy in problem.remedy
    assert "\n" not in problem.what
    assert "\x1b" not in problem.what


def test_the_files_of_a_table_are_as_old_as_its_log_says() -> None:
    told = '{"numRecords": 2, "maxValues": {"arrival": "2026-11-17T12:00:00.123Z"}}'
    newest = datetime(2026, 11, 17, 12, 0, 0, 123_000, UTC)
    assert file_size("2026-11-17", 7, told, EVENTS) == FileSize(date(2026, 11, 17), 7, newest)
    assert file_size("2026-11-17", 7, told, ATTEMPTS).newest is None
    assert file_size("2026-11-17", 7, None, EVENTS).newest is None
