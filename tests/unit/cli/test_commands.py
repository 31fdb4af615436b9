"""The commands print readable errors, are documented, and start fast."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main
from typer.testing import CliRunner

from penstock.cli import app

DOCS = Path(__file__).parents[3] / "docs"

HEAVY = [
    *("confluent_kafka", "cryptography", "httpx2", "lark", "lightkube", "pyarrow"),
    *("pydantic", "pyspark", "rich", "starlette", "yaml"),
]

runner = CliRunner()


def test_version_names_penstock_python_and_spark() -> None:
    result = runner.invoke(app, ["version"])
    assert re.fullmatch(r"penstock \S+ \(Python 3\.\d+\.\d+, Spark 4\.2\.0\)\n", result.output)
    assert runner.invoke(app, ["--version"]).output == result.output


def test_status_without_a_stack_says_how_to_start_one(tmp_path: Path) -> None:
    result = runner.invoke(app, ["status", "--data-dir", str(tmp_path)])
    assert result.exit_code == 1
    assert "No stack is running" in result.output
    assert "penstock dev" in result.output


def test_no_colour_where_none_is_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in runner.invoke(app, ["status", "--data-dir", str(tmp_path)], color=True).output


def test_a_wrong_setting_is_a_sentence_not_a_traceback() -> None:
    result = runner.invoke(app, ["dev", "--port", "70000"])
    assert result.exit_code == 2
    assert "Invalid value 70000 of --port: input should be less than or equal to 65535" in result.output
    assert "Traceback" not in result.output


def test_every_command_is_documented() -> None:
    written = "\n".join(path.read_text() for path in DOCS.rglob("*.md"))
    missing = [name for name in typer.main.get_command(app).commands if f"penstock {name}" not in written]  # type: ignore[attr-defined]
    assert not missing, f"no page of docs/ mentions: {missing}"


def test_the_commands_import_nothing_heavy() -> None:
    program = f"import sys, penstock.cli; print(*(name for name in {HEAVY} if name in sys.modules))"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == [], "import it inside the function that uses it: penstock --help has to be fast"
