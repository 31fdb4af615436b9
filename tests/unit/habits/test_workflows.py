"""The workflows run what the repository has, on every Python and Java that penstock promises to run on."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.engine import java

ROOT = Path(__file__).parents[3]
MAKEFILE = (ROOT / "Makefile").read_text()
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yaml"))
named = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)


def steps(path: Path) -> list[dict[str, Any]]:
    return [step for job in yaml.safe_load(path.read_text())["jobs"].values() for step in job["steps"]]


def test_every_supported_python_and_java_is_tried() -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yaml").read_text())["jobs"]
    assert jobs["nightly"]["steps"][-1] == {"run": ".ci/run"}
    matrix = jobs["nightly"]["strategy"]["matrix"]
    assert matrix["java"] == [str(version) for version in java.SUPPORTED]
    oldest = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"].removeprefix(">=")
    first, *others = (int(version.removeprefix("3.")) for version in matrix["python"])
    assert f"3.{first}" == oldest
    assert others == list(range(first + 1, 15))


@named
def test_what_a_step_runs_is_there(path: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
    commands = [step["run"] for step in steps(path) if "run" in step]
    assert commands
    for command in commands:
        program, *arguments = command.split()
        assert set(arguments) <= targets if program == "make" else os.access(ROOT / program, os.X_OK), command


@named
def test_files_that_keys_of_caches_are_made_of_are_there(path: Path) -> None:
    files = re.findall(r"hashFiles\('([^']+)'\)", path.read_text())
    files += [step["with"]["cache-dependency-path"] for step in steps(path) if "cache" in step.get("with", {})]
    assert files
    assert [file for file in files if not (ROOT / file).is_file()] == []


@named
def test_a_workflow_may_read_and_no_more(path: Path) -> None:
    assert yaml.safe_load(path.read_text())["permissions"] == {"contents": "read"}


def test_ci_runs_the_tests_that_make_test_leaves_out() -> None:
    run = [line.split()[1] for line in (ROOT / ".ci" / "run").read_text().splitlines() if line.startswith("make ")]
    assert run[:2] == ["test", "test-long"]
    recipes = dict(re.findall(r"^([a-z-]+): preflight.*\n\t\$\(ON_REAL_THINGS\) -m (.*?) \$", MAKEFILE, re.MULTILINE))
    assert recipes == {"integration": '"not long"', "test-long": "long"}
