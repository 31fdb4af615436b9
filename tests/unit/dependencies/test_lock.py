"""What is fetched to build and test penstock is named by its content: nothing else can be put in its place."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.dependencies import packages

ROOT = Path(__file__).resolve().parents[3]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yaml"))


def blocks() -> list[str]:
    """The lock file, package by package."""
    return re.split(r"\n(?=\S)", packages.LOCK.read_text().strip())


def test_every_package_is_pinned_with_the_sums_of_its_files() -> None:
    assert len(blocks()) == len(packages.locked()) > 100
    bad = [
        one for one in blocks() if not re.match(r"[\w.-]+==\S+( ; [^\n]+)?( \\\n    --hash=sha256:[0-9a-f]{64})+$", one)
    ]
    assert bad == []


def test_the_lock_is_read_whatever_stands_behind_a_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = tmp_path / "requirements.lock"
    sums = " \\\n    --hash=sha256:" + "a" * 64 + " \\\n    --hash=sha256:" + "b" * 64
    lock.write_text(f"a_b==1.0{sums}\nc.d==2 ; sys_platform == 'linux'{sums}\n")
    monkeypatch.setattr(packages, "LOCK", lock)
    assert packages.locked() == {"a-b": "1.0", "c-d": "2"}


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.stem)
def test_actions_are_named_by_commit(file: Path) -> None:
    used = re.findall(r"uses: *(\S+)(.*)", file.read_text())
    assert used
    assert [
        one for one in used if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", one[0]) or " # v" not in one[1]
    ] == []
