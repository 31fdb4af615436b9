"""What `penstock dev` prints of its components."""

from __future__ import annotations

import asyncio
from io import StringIO
from pathlib import Path

import pytest

from penstock.cli.dev import _print_link
from penstock.cli.terminal import StackScreen
from penstock.engine.processes.child_logs import ComponentLog
from penstock.engine.processes.supervisor import Component, State, Watch
from penstock.settings import Settings


def test_a_component_is_ready_once_and_then_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def command() -> list[str]:
        return []

    screen = StackScreen()
    watch = Watch(Component("console", command), ComponentLog(tmp_path, "console"))
    states: list[State] = ["starting", "ready", "ready", "waiting", "ready"]
    for state in states:
        watch.state = state
        screen.changed(watch)
    assert [line.strip() for line in capsys.readouterr().out.splitlines()] == [
        "console ready",
        "console is ready again",
    ]


class Terminal(StringIO):
    """A person reads what is written here."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("kind", [Terminal, StringIO], ids=["terminal", "log"])
async def test_a_link_that_signs_in_is_for_a_person_at_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[StringIO]
) -> None:
    output = kind()
    monkeypatch.setattr("sys.stdout", output)
    monkeypatch.setattr("penstock.operations.login_link.token_in", lambda file: file.name)
    monkeypatch.setattr(
        "penstock.operations.login_link.login_link", lambda settings, token, seconds: f"{token} {seconds}"
    )
    screen = StackScreen()
    printing = asyncio.create_task(_print_link(Settings(data_dir=tmp_path), screen))
    await asyncio.sleep(0)
    assert output.getvalue() == "", "the console does not answer yet"
    screen.console_ready.set()
    await printing
    assert ("kubeconfig 3600" in output.getvalue()) is (kind is Terminal)
