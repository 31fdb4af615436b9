"""The data folder is for its owner alone, and nothing that is not penstock's is touched."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.engine import datadir
from penstock.engine.datadir import DataDir
from penstock.runtime.errors import UserError
from penstock.settings import Settings


def modes(root: Path) -> dict[str, str]:
    """Every path below a folder with its rights."""
    return {str(path.relative_to(root)): oct(path.lstat().st_mode & 0o777) for path in sorted(root.rglob("*"))}


@pytest.fixture
def left_open(tmp_path: Path) -> Path:
    """A folder as an earlier version left it."""
    root = tmp_path / "data"
    (root / "kafka" / "log").mkdir(parents=True)
    for name in ("api.db", "kafka/log/0.log"):
        (root / name).write_text("secret")
        (root / name).chmod(0o644)
    for folder in (root, root / "kafka", root / "kafka" / "log"):
        folder.chmod(0o755)
    return root


def opened(root: Path) -> list[str]:
    """What opening the folder says."""
    data = DataDir(root)
    try:
        return data.open(Settings())
    finally:
        data.close()


def test_a_new_folder_is_closed_whatever_the_umask_and_nothing_is_said(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        assert opened(tmp_path / "data") == []
    finally:
        os.umask(before)
    assert oct((tmp_path / "data").stat().st_mode & 0o777) == "0o700"
    assert set(modes(tmp_path / "data").values()) == {"0o700", "0o600"}


def test_a_folder_that_was_open_is_closed_and_that_is_said(left_open: Path) -> None:
    [said] = opened(left_open)
    assert said == f"Other users of this machine could read the data folder {left_open}; it is closed now."
    assert oct(left_open.stat().st_mode & 0o777) == "0o700"
    found = modes(left_open)
    assert {name: found[name] for name in ("api.db", "kafka", "kafka/log", "kafka/log/0.log")} == {
        "api.db": "0o600",
        "kafka": "0o700",
        "kafka/log": "0o700",
        "kafka/log/0.log": "0o600",
    }
    assert opened(left_open) == [], "it is said once"


def test_all_that_a_stack_keeps_is_closed_and_the_folder_around_it(left_open: Path) -> None:
    """As a restored backup is, or one that was unpacked by somebody without a umask."""
    kept = ("history/events/part.parquet", "pods/default/sink/token", "sources.db", "sources.db-wal", "kubeconfig-node")
    for name in kept:
        (left_open / name).parent.mkdir(parents=True, exist_ok=True)
        (left_open / name).write_text("secret")
    for path in left_open.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    assert len(opened(left_open)) == 1
    assert oct(left_open.stat().st_mode & 0o777) == "0o700"
    assert set(modes(left_open).values()) == {"0o700", "0o600"}


@pytest.mark.parametrize(("uid", "said"), [(0, True), (1000, False)])
def test_the_administrator_is_warned_of_the_programs_of_pods(
    monkeypatch: pytest.MonkeyPatch, uid: int, said: bool
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    assert ("programs of Pods" in (datadir.administrator_remark() or "")) == said


def test_other_things_in_the_folder_and_the_folder_around_them_are_left_alone(left_open: Path) -> None:
    (left_open / "website").mkdir(mode=0o755)
    (left_open / "run").mkdir()
    (left_open / "run" / "link").symlink_to(left_open / "website")
    opened(left_open)
    assert oct(left_open.stat().st_mode & 0o777) == "0o755"
    assert modes(left_open)["website"] == "0o755"
    assert modes(left_open)["api.db"] == "0o600"


def test_rights_that_cannot_be_changed_are_said(left_open: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, mode: int) -> None:
        raise PermissionError(1, "Operation not permitted", str(path))

    monkeypatch.setattr(Path, "chmod", refuse)
    [said] = opened(left_open)
    assert "could not be closed to them" in said
    assert "Operation not permitted" in said


def test_somebody_elses_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(UserError, match=r"belongs to the user .*, who could read every event"):
        opened(tmp_path)
    assert not (tmp_path / "run").exists()


def test_the_administrator_is_told_whose_folder_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datadir, "_owner", lambda _root: 4242)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    [said] = opened(tmp_path)
    assert said.startswith(f"The data folder {tmp_path} belongs to the user 4242;")
