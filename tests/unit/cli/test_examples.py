"""The `--help` of every command ends with an example, and the command takes it."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from penstock.cli import app
from penstock.cli.examples import EXAMPLES, commands
from tests.command_lines import misunderstood

ALL = [example for examples in EXAMPLES.values() for example in examples]


def test_every_command_has_an_example_and_no_other_is_there() -> None:
    assert {name for name, _ in commands(app)} == set(EXAMPLES), "write it in src/penstock/cli/examples.py"


@pytest.mark.parametrize("example", ALL)
def test_the_command_takes_its_example(example: str) -> None:
    assert list(misunderstood(example)) == []


def test_the_help_ends_with_it() -> None:
    without = [name for name, command in commands(app) if not command.epilog]
    assert without == [], "examples.add_to(app) comes last in src/penstock/cli/__init__.py"
    shown = CliRunner().invoke(app, ["create", "trigger", "--help"], env={"COLUMNS": "120"}).output
    assert "$ penstock create trigger greetings --subscriber http://127.0.0.1:9000/" in shown
