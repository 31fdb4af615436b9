"""What a newcomer is told: before anything is downloaded, and when everything is ready."""

from __future__ import annotations

import importlib.util
import socket
from pathlib import Path
from types import ModuleType

import pytest

from penstock.cli import dev
from penstock.cli.terminal import StackScreen
from penstock.engine.ports import PORTS
from penstock.settings import Settings

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "tools" / "first_start.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("first_start", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_lines_name_nothing_that_need_not_be_named() -> None:
    assert dev.first_commands(Settings(), "penstock", 9000, is_alone=True) == [
        "penstock create broker",
        "penstock listen --count 1 &",
        "penstock create trigger greetings --subscriber http://127.0.0.1:9000/",
        'penstock send \'{"hello": "world"}\' --watch',
    ]


def test_beside_another_stack_the_lines_say_which_one_is_meant() -> None:
    lines = dev.first_commands(Settings(data_dir=Path("/a b")), "/v/bin/penstock", 4711, is_alone=False)
    assert lines[0] == "/v/bin/penstock create broker --data-dir '/a b'"
    assert lines[1] == "/v/bin/penstock listen --count 1 --port 4711 &"
    assert lines[2].endswith("http://127.0.0.1:4711/ --data-dir '/a b'")


def test_the_program_goes_by_its_name_only_where_that_leads_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, other = tmp_path / "mine" / "penstock", tmp_path / "other" / "penstock"
    for path in (mine, other):
        path.parent.mkdir()
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
    monkeypatch.setattr("sys.argv", [str(mine)])
    for folder, expected in ((mine.parent, "penstock"), (other.parent, str(mine))):
        monkeypatch.setenv("PATH", str(folder))
        assert dev.program() == expected


@pytest.mark.parametrize("page", ["README.md", "docs/getting-started.md"])
def test_pages_show_what_is_printed_when_everything_is_ready(
    page: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    StackScreen().ready(Settings(), 12.3)
    told, *_ = capsys.readouterr().out.replace("12.3", "…").partition("\n\n")
    assert told in (ROOT / page).read_text()


def test_the_ports_that_are_looked_at_are_those_of_the_settings(script: ModuleType) -> None:
    defaults = {port.flag: Settings.model_fields[port.field].default for port in PORTS}
    assert script.PORTS.items() <= defaults.items()


def test_flags_and_variables_choose_other_ports(script: ModuleType) -> None:
    assert script.wanted([], {}) == script.PORTS
    assert script.wanted(["--port", "0", "--api-port=7000"], {}) == {"--api-port": 7000}
    assert script.wanted([], {"PENSTOCK_KAFKA_PORT": "7001"})["--kafka-port"] == 7001


def test_a_port_in_use_is_named_before_anything_is_downloaded(
    script: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        number = busy.getsockname()[1]
        arguments = ["--port", "0", "--api-port", str(number)]
        assert script.main(arguments) == 1
    assert f"port {number} is in use" in capsys.readouterr().err
    assert script.main(arguments) == 0
