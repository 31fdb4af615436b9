"""Log files hold JSON lines whatever a program prints, and the terminal shows sentences."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.processes import child_logs as logs
from penstock.engine.processes import restarts
from penstock.engine.processes.child_logs import ComponentLog, RepeatedMessages


def test_text_is_put_into_json_and_json_is_left_alone(tmp_path: Path) -> None:
    log = ComponentLog(tmp_path, "kafka")
    log.write('{"event": "ready", "level": "info"}')
    log.write("[main] [WARN] kafka.Server - slow disk")
    log.close()
    first, second = (json.loads(line) for line in (tmp_path / "kafka.log").read_text().splitlines())
    assert first == {"event": "ready", "level": "info"}
    assert (second["level"], second["component"]) == ("warning", "kafka")
    assert "slow disk" in second["event"]


def test_files_are_set_aside_at_a_size(tmp_path: Path) -> None:
    log = ComponentLog(tmp_path, "noisy")
    line = json.dumps({"event": "x" * 100_000})
    for _ in range(2 * logs.FILE_BYTES // len(line)):
        log.write(line)
    log.close()
    assert (tmp_path / "noisy.log.1").exists()
    assert all(path.stat().st_size <= logs.FILE_BYTES for path in tmp_path.iterdir())


def test_a_full_disk_loses_lines_but_not_the_stack() -> None:
    log = ComponentLog(Path("/dev/full"), "any")  # nothing can be created in there
    log.write("still remembered")
    assert list(log.last) == ["still remembered"]


@given(st.text())
def test_any_line_can_be_shown(line: str) -> None:
    assert isinstance(logs.readable(line), str)


def test_a_record_is_shown_as_a_sentence() -> None:
    line = json.dumps({"event": "it failed", "level": "error", "timestamp": "t", "component": "c", "route": "r"})
    assert logs.readable(line) == "[error] it failed route=r"


def test_last_words_become_advice() -> None:
    assert "disk is full" in str(restarts.advice_for(["ok", "java.io.IOException: No space left on device"]))
    assert restarts.advice_for(["nothing of note"]) is None


def refused(client: str, at: float) -> str:
    return f"%3|{at:.3f}|FAIL|rdkafka#{client}| [thrd:kafka:9092/bootstrap]: Connect failed: refused (after {at:.0f}ms)"


def test_the_same_complaint_is_kept_once_in_a_while() -> None:
    complaints = RepeatedMessages()
    lines = [(tick / 10, refused(f"consumer-{tick % 7}", tick / 10)) for tick in range(250)]
    kept = [found for at, line in lines if (found := complaints.filter(line, at)) is not None]
    assert kept == [
        refused("consumer-0", 0),
        refused("consumer-2", 10) + " (and 99 more like it since the last)",
        refused("consumer-4", 20) + " (and 99 more like it since the last)",
    ]


def test_other_lines_and_other_complaints_are_all_kept() -> None:
    complaints = RepeatedMessages()
    lines = [
        "Traceback (most recent call last):",
        "  line 1",
        "  line 1",
        refused("consumer-1", 1),
        refused("consumer-1", 1).replace("refused", "timed out"),
        '{"event": "the same"}',
        '{"event": "the same"}',
    ]
    assert [complaints.filter(line, 1.0) for line in lines] == lines


def test_a_complaint_says_how_bad_it_is() -> None:
    lines = [
        refused("producer-1", 1),
        "%4|1.0|REQTMOUT|x#consumer-1| late",
        "%6|1.0|FAIL|x#consumer-1| closed",
        "%5 off",
    ]
    assert [logs.wrap(line, "c", 0)["level"] for line in lines] == ["error", "warning", "info", "info"]
