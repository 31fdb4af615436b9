"""What `penstock dev` prints of its components."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli.terminal import StackScreen
from penstock.engine.processes.child_logs import ComponentLog
from penstock.engine.processes.supervisor import Component, State, Watch


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
