"""A log file that several processes share is bounded, and no line is lost while it is."""

from __future__ import annotations

import logging
import multiprocessing
from pathlib import Path

from penstock.observability.logs import SharedLogFile

LINES = 400


def write(path: Path, name: str, limit: int, old_files: int) -> None:
    handler = SharedLogFile(path, limit, old_files)
    for number in range(LINES):
        handler.emit(logging.makeLogRecord({"msg": f"{name} {number}"}))
    handler.close()


def lines(folder: Path) -> list[str]:
    return [line for file in folder.glob("d.log*") for line in file.read_text().splitlines()]


def test_processes_that_write_at_once_lose_no_line(tmp_path: Path) -> None:
    spawned = multiprocessing.get_context("fork")
    writers = [spawned.Process(target=write, args=(tmp_path / "d.log", name, 1000, 1000)) for name in "abc"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(list(tmp_path.glob("d.log.*"))) > 5
    assert sorted(lines(tmp_path)) == sorted(f"{name} {number}" for name in "abc" for number in range(LINES))


def test_old_files_are_few_and_the_newest_lines_are_kept(tmp_path: Path) -> None:
    write(tmp_path / "d.log", "a", 1000, 2)
    files = {file.name for file in tmp_path.iterdir()} - {"d.log.lock"}
    assert files <= {"d.log", "d.log.1", "d.log.2"}
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) < 3 * 1100
    assert f"a {LINES - 1}" in lines(tmp_path)
