"""A data folder belongs to one stack, and what is wrong with it is said in words."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.engine import datadir
from penstock.engine.datadir import DataDir
from penstock.runtime.errors import UserError
from penstock.settings import Settings


def test_a_second_stack_is_refused_with_the_pid_of_the_first(tmp_path: Path) -> None:
    first = DataDir(tmp_path)
    first.open(Settings())
    assert datadir.runs(tmp_path)
    with pytest.raises(UserError, match=rf"Another stack \(pid {os.getpid()}\) runs on the data folder"):
        DataDir(tmp_path).open(Settings())
    first.close()
    assert not datadir.runs(tmp_path)
    DataDir(tmp_path).open(Settings())


def test_a_file_in_place_of_the_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("not a folder")
    with pytest.raises(UserError, match="is not a folder"):
        DataDir(tmp_path / "data").open(Settings())


def test_a_folder_on_a_read_only_place_is_named() -> None:
    with pytest.raises(UserError, match="cannot be used"):
        DataDir(Path("/proc/penstock")).open(Settings())


def test_a_disk_with_too_little_room_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="MiB left"):
        DataDir(tmp_path).open(Settings(min_free_disk_mib=10**9))
    assert not datadir.runs(tmp_path)


def test_a_record_is_read_back(tmp_path: Path) -> None:
    data = DataDir(tmp_path)
    data.open(Settings())
    data.write_stack({"components": {"kafka": {"pid": 7, "created": 1.5}, "control": {"pid": None}}})
    assert datadir.read_processes(tmp_path) == [(7, 1.5)]
    data.close()


def test_another_users_record_is_refused_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(UserError, match="No permission to read the data folder"):
        datadir.read_stack(tmp_path)


def test_a_process_that_took_over_a_number_is_left_alone(tmp_path: Path) -> None:
    data = DataDir(tmp_path)
    data.open(Settings())
    data.write_stack({"components": {"kafka": {"pid": os.getpid(), "created": 1.0}}})
    data.end_leftovers(timeout=0.1)
    data.close()
