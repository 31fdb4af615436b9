"""A short run of every target of `make fuzz`, the same each time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
INPUTS = 1500
pytest.importorskip("atheris", reason="Atheris has no wheel for this Python or system")


def test_no_parser_fails_on_what_a_fuzzer_makes_up(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(HERE / "fuzz.py"), "--seconds", "20", "--runs", str(INPUTS), "--seed", "1"],
        env={**os.environ, "FUZZ_FOUND": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    listed = [line.split() for line in done.stdout.splitlines()]
    assert {line[0] for line in listed} == {path.name for path in (HERE / "corpus").iterdir()}
    assert all(int(line[1]) > 0 for line in listed), done.stdout
