"""What the writer of the history says of a failure, and who writes which place."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from penstock.engine.history.work import fitting, told
from penstock.history.schema.columns import EVENTS
from penstock.history.schema.problem import newer
from penstock.history.writer.arrow_table import ArrowTable
from penstock.settings import Settings


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (OSError(28, "No space left on device"), "/data/history: No space left on device"),
        (PermissionError(13, "Permission denied", "/data/history/events"), "/data/history/events: Permission denied"),
        (
            newer("/data/history/events", 2, 1),
            "The table /data/history/events was written by a newer penstock (schema 2; this one knows 1). "
            "Use that version, or choose another place with history_uri.",
        ),
        (RuntimeError("o1.commit\nCaused by: java.io.IOException: no route\n\tat x"), "java.io.IOException: no route"),
        (ValueError("odd"), "ValueError: odd"),
    ],
    ids=["full", "forbidden", "newer", "Spark", "other"],
)
def test_a_failure_is_a_line(error: Exception, line: str) -> None:
    assert told(error, Settings(data_dir=Path("/data"))) == line


def test_a_folder_of_this_machine_needs_no_spark(tmp_path: Path) -> None:
    assert isinstance(fitting(Settings(data_dir=tmp_path))(EVENTS), ArrowTable)


def test_the_stack_loads_nothing_of_the_tables_while_the_history_rests() -> None:
    ask = "import sys, penstock.engine.stack; print({'pyarrow', 'deltalake', 'duckdb', 'pyspark'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
