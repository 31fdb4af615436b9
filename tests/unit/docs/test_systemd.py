"""The units of deploy/systemd: one for each role that runs on machines, all kept in the same way, with commands and
variables that exist.
"""

from __future__ import annotations

import shlex
from collections import defaultdict
from pathlib import Path

import pytest
import typer

from penstock.cli import app
from penstock.engine.roles.table import ROLES
from penstock.settings import Settings

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "deploy" / "systemd"
ONLY_ON_KUBERNETES = {"webhook"}
KEPT = {
    "User": ["penstock"],
    "WorkingDirectory": ["/etc/penstock"],
    "EnvironmentFile": ["-/etc/penstock/environment"],
    "StateDirectory": ["penstock"],
    "StateDirectoryMode": ["0700"],
    "CacheDirectory": ["penstock"],
    "KillMode": ["mixed"],
    "TimeoutStopSec": ["60"],
    "Restart": ["always"],
    "RestartSec": ["2"],
    "LimitNOFILE": ["65536"],
    "NoNewPrivileges": ["true"],
    "ProtectSystem": ["strict"],
    "ProtectHome": ["true"],
    "PrivateTmp": ["true"],
}
"""What the service of every role says."""
NOT_SETTINGS = {"PENSTOCK_INSTANCE"}

Unit = dict[str, dict[str, list[str]]]


def unit(path: Path) -> Unit:
    """Sections of a unit, with the values of each key: a key may be there several times."""
    sections: Unit = {}
    for line in filter(None, map(str.strip, path.read_text().splitlines())):
        if line.startswith("["):
            section = sections[line.strip("[]")] = defaultdict(list)
        elif not line.startswith("#"):
            key, sign, value = line.partition("=")
            assert sign, line
            section[key].append(value.strip())
    return sections


def of_role(name: str) -> Path:
    """The unit of a role; one with `@` where there may be several."""
    [found] = [path for path in FOLDER.glob("*.service") if path.stem.rstrip("@") == f"penstock-{name}"]
    return found


ON_MACHINES = sorted({role.name for role in ROLES} - ONLY_ON_KUBERNETES)
ALL = sorted(FOLDER.glob("*.service"))


@pytest.mark.parametrize("name", ON_MACHINES)
def test_a_role_has_a_unit_that_is_kept_like_the_others(name: str) -> None:
    found = unit(of_role(name))
    assert {key: found["Service"][key] for key in KEPT} == KEPT
    assert (found["Unit"]["PartOf"], found["Install"]["WantedBy"]) == (["penstock.target"], ["penstock.target"])
    assert found["Unit"]["StartLimitIntervalSec"] == ["0"]


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_a_unit_keeps_its_programs_from_the_system_and_from_homes(path: Path) -> None:
    service = unit(path)["Service"]
    assert {key: service[key] for key in KEPT if key.startswith(("Protect", "Private", "NoNew"))} == {
        "NoNewPrivileges": ["true"],
        "ProtectSystem": ["strict"],
        "ProtectHome": ["true"],
        "PrivateTmp": ["true"],
    }


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_a_unit_starts_a_command_with_flags_and_variables_that_exist(path: Path) -> None:
    service = unit(path)["Service"]
    [line] = service["ExecStart"]
    program, name, *flags = shlex.split(line.replace("%i", "1"))
    assert (program, f"penstock-{name}") == ("/opt/penstock/bin/penstock", path.stem.rstrip("@"))
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]  # a group of commands
    given = commands[name].make_context(name, flags).params
    assert given["data_dir"].is_relative_to("/var/lib/penstock"), "what systemd makes for it, and nothing beside"
    variables = {assignment.partition("=")[0] for assignment in service["Environment"]}
    assert variables - NOT_SETTINGS <= {f"PENSTOCK_{field.upper()}" for field in Settings.model_fields}


def test_the_documentation_enables_every_role() -> None:
    text = (ROOT / "docs" / "deployment.md").read_text()
    lines = [line.split() for line in text.splitlines() if line.startswith("systemctl enable")]
    enabled = {word.partition("@")[0] for words in lines for word in words}
    assert {f"penstock-{name}" for name in ON_MACHINES} <= enabled
