"""Commands find the stack that runs, from any folder, and say how to choose where it is not clear."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli import app
from penstock.engine import datadir, running_stacks
from penstock.operations import installation
from penstock.runtime.errors import UserError
from penstock.settings import Settings

runner = CliRunner()


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory without a stack, and a state folder of the test's own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("PENSTOCK_URL", raising=False)
    monkeypatch.delenv("PENSTOCK_DATA_DIR", raising=False)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path


class Stacks:
    """Data folders that are held as a running stack holds them."""

    def __init__(self, base: Path) -> None:
        self._base = base
        self._held: dict[Path, int] = {}

    def start(self, name: str) -> Path:
        root = self._base / name
        (root / "run").mkdir(parents=True)
        lock = os.open(root / datadir.LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        self._held[root] = lock
        (root / datadir.STACK_FILE).write_text('{"state": "ready", "components": {}}')
        (root / datadir.SETTINGS_FILE).write_text(Settings(data_dir=root, port=8123).model_dump_json())
        running_stacks.enter(root)
        return root

    def kill(self, root: Path) -> None:
        os.close(self._held.pop(root))

    def end(self) -> None:
        for root in list(self._held):
            self.kill(root)


@pytest.fixture
def stacks(elsewhere: Path) -> Iterator[Stacks]:
    stacks = Stacks(elsewhere)
    yield stacks
    stacks.end()


def test_the_one_that_runs_is_meant(stacks: Stacks) -> None:
    root = stacks.start("one")
    found = installation.find()
    assert found.root == root
    assert found.kubeconfig == root / "kubeconfig"
    assert found.kafka_settings("penstock tail").port == 8123


def test_nothing_runs_and_the_command_says_what_to_do() -> None:
    result = runner.invoke(app, ["status"])
    assert result.exit_code == 1
    assert "No stack is running." in result.output
    assert "penstock dev" in result.output


def test_several_run_and_the_command_says_how_to_choose(stacks: Stacks) -> None:
    roots = [stacks.start("one"), stacks.start("two")]
    result = runner.invoke(app, ["status"])
    assert result.exit_code == 2
    assert all(f"--data-dir {root}" in result.output for root in roots)
    assert installation.find(data_dir=roots[1]).root == roots[1]


def test_the_stack_of_this_folder_comes_before_others(stacks: Stacks) -> None:
    stacks.start("other")
    here = stacks.start("work/.penstock")
    assert installation.find().root == here


def test_a_folder_that_is_named_and_does_not_run_is_not_replaced_by_another(stacks: Stacks, elsewhere: Path) -> None:
    other = stacks.start("other")
    with pytest.raises(UserError) as problem:
        installation.find(data_dir=elsewhere / "mine")
    assert f"No stack is running on the data folder {elsewhere / 'mine'}" in problem.value.what
    assert str(other) in problem.value.remedy


def test_what_a_killed_stack_left_behind_is_removed(stacks: Stacks) -> None:
    killed, alive = stacks.start("killed"), stacks.start("alive")
    stacks.kill(killed)
    assert running_stacks.running() == [alive]
    assert len(list(running_stacks.folder().iterdir())) == 1


def test_a_stack_that_ends_leaves_nothing(stacks: Stacks) -> None:
    root = stacks.start("one")
    running_stacks.leave(root)
    assert list(running_stacks.folder().iterdir()) == []


def test_a_state_folder_that_cannot_be_written_is_no_reason_to_fail(elsewhere: Path) -> None:
    (elsewhere / "state").write_text("a file")
    running_stacks.enter(elsewhere / "one")
    running_stacks.leave(elsewhere / "one")
    assert running_stacks.running() == []


def test_an_installation_elsewhere_is_named_by_its_url(monkeypatch: pytest.MonkeyPatch, elsewhere: Path) -> None:
    (elsewhere / "ca.crt").write_text("certificates")
    environ = {"PENSTOCK_URL": "https://far:6443", "PENSTOCK_TOKEN": "t", "PENSTOCK_CA": str(elsewhere / "ca.crt")}
    found = installation.find(environ=environ)
    assert (found.url, found.token, found.authority) == ("https://far:6443", "t", elsewhere / "ca.crt")
    with pytest.raises(UserError) as problem:
        found.kafka_settings("penstock tail")
    assert "PENSTOCK_KAFKA" in problem.value.remedy
    monkeypatch.setenv("PENSTOCK_KAFKA", "kafka:9092")
    assert found.kafka_settings("penstock tail").bootstrap == "kafka:9092"


@pytest.mark.parametrize(
    ("environ", "told"),
    [
        ({"PENSTOCK_URL": "far:6443"}, "PENSTOCK_URL"),
        ({"PENSTOCK_URL": "https://far:6443", "PENSTOCK_CA": "/nowhere"}, "PENSTOCK_CA"),
    ],
)
def test_a_variable_that_cannot_be_meant_is_named(environ: dict[str, str], told: str) -> None:
    with pytest.raises(UserError) as problem:
        installation.find(environ=environ)
    assert told in problem.value.what


def test_a_kubeconfig_that_is_not_there_is_named(elsewhere: Path) -> None:
    with pytest.raises(UserError, match=r"kubeconfig .* does not exist"):
        installation.find(kubeconfig=elsewhere / "nothing")


def test_a_relative_state_folder_does_not_count() -> None:
    assert running_stacks.folder({"XDG_STATE_HOME": "here"}) == Path.home() / ".local/state/penstock/stacks"
