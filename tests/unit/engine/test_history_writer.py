"""What the writer of the history says of a failure, and who writes which place."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from penstock.engine.history.writer import error_message, table_factory
from penstock.history.schema.columns import EVENTS, newer
from penstock.history.writer.arrow_table import ArrowTable
from penstock.settings import Settings


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (OSError(28, "No space left on device"), "/data/history: No space left on device"),
        (PermissionError(13, "Permission denied", "/data/history/events"), "/data/history/events: Permission denied"),
        (
            newer("/data/history/events", 2, 1),
            "The table /data/history/events was written by a newer version of penstock "
            "(schema 2; this one supports 1). "
            "Use that version, or another history_uri.",
        ),
        (RuntimeError("o1.commit\nCaused by: java.io.IOException: no route\n\tat x"), "java.io.IOException: no route"),
        (ValueError("odd"), "ValueError: odd"),
    ],
    ids=["full", "forbidden", "newer", "Spark", "other"],
)
def test_a_failure_is_a_line(error: Exception, line: str) -> None:
    assert error_message(error, Settings(data_dir=Path("/data"))) == line


@pytest.mark.parametrize(
    ("trace", "parts"),
    [
        (
            ': org.apache.hadoop.fs.UnsupportedFileSystemException: No FileSystem for scheme "foo"',
            ["s3a://b/x: ", "Spark does not support foo://", "history_uri", "spark.jars"],
        ),
        (
            ": java.lang.RuntimeException: java.lang.ClassNotFoundException: "
            "Class org.apache.hadoop.fs.s3a.S3AFileSystem not found",
            [
                "ClassNotFoundException",
                "org.apache.hadoop.fs.s3a.S3AFileSystem are missing",
                "spark.jars",
                "hadoop-aws",
            ],
        ),
        (
            "Caused by: S3Exception: Forbidden (Service: S3, Status Code: 403)\n",
            ["credentials were refused", "spark.hadoop.fs.s3a."],
        ),
        ("java.io.FileNotFoundException: NoSuchBucket", ["the bucket does not exist"]),
    ],
    ids=["scheme", "jars", "credentials", "bucket"],
)
def test_a_place_that_cannot_be_used_is_told_with_the_setting_to_look_at(trace: str, parts: list[str]) -> None:
    line = error_message(
        RuntimeError(f"An error occurred while calling o1.x\n{trace}\n\tat y"), Settings(history_uri="s3a://b/x")
    )
    assert [part for part in parts if part not in line] == []
    assert "\n" not in line


def test_a_folder_of_this_machine_needs_no_spark(tmp_path: Path) -> None:
    assert isinstance(table_factory(Settings(data_dir=tmp_path))(EVENTS), ArrowTable)


def test_the_stack_loads_nothing_of_the_tables_while_the_history_rests() -> None:
    ask = "import sys, penstock.engine.stack; print({'pyarrow', 'deltalake', 'duckdb', 'pyspark'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
