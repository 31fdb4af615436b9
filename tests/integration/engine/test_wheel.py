"""The wheel, installed where nothing else of this repository is."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests import wheels

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` folder of an environment that has the wheel, and this environment's packages for what it depends on."""
    return wheels.installed(ROOT, tmp_path_factory.mktemp("wheel"))


def run(installed: Path, *command: str) -> str:
    ran = subprocess.run(
        [str(installed / command[0]), *command[1:]],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
        cwd=installed,
        env={"PATH": "/usr/bin:/bin", "HOME": str(installed)},
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_the_command_answers(installed: Path) -> None:
    assert run(installed, "penstock", "version").startswith("penstock ")
    assert "Start the whole stack" in run(installed, "penstock", "dev", "--help")


def test_the_code_is_the_wheels_own(installed: Path) -> None:
    where = run(installed, "python", "-c", "import penstock.engine.stack as s; print(s.__file__)")
    assert Path(where.strip()).is_relative_to(installed.parent)


def test_files_that_are_not_python_are_in_the_wheel(installed: Path) -> None:
    listed = run(installed, "python", "-c", _LIST)
    ours = {str(path.relative_to(ROOT / "src" / "penstock")) for path in _data_files()}
    assert {"engine/jars/ivy.xml", "engine/log4j2.properties", "py.typed"} <= ours
    assert ours <= set(listed.split())


_LIST = """
from pathlib import Path; import penstock
root = Path(penstock.__file__).parent
print(*(path.relative_to(root) for path in root.rglob("*") if path.is_file()), sep="\\n")
"""


def _data_files() -> list[Path]:
    package = ROOT / "src" / "penstock"
    return [path for path in package.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")]


def test_every_import_is_a_declared_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)]
    declared = {_normal(re.split(r"[\[<>=!~ ]", line)[0]) for line in lines}
    declared |= {"uvloop", "httptools", "py4j"}  # of uvicorn[standard] and pyspark
    homes = packages_distributions()
    missing = {
        f"{name} ({path.relative_to(ROOT)})"
        for path in (ROOT / "src").rglob("*.py")
        for name in _imports(path)
        if name not in sys.stdlib_module_names and name != "penstock"
        if not declared & {_normal(home) for home in homes.get(name, [name])}
    }
    assert not missing


def _imports(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module.partition(".")[0])
    return names


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
