"""What a stack survives: the death of each of its processes, and its own."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from running import Stack, eventually, start_stack, stop_process

STOP_SECONDS = 120
"""A busy machine's, with the time that the first stop takes to keep the JVMs' classes for the next start."""


@pytest.mark.timeout(900)
def test_it_survives_the_death_of_each_child_and_leaves_nothing_when_killed(tmp_path: Path) -> None:
    stack = start_stack(tmp_path / "data")
    family: list[psutil.Process] = []
    try:
        stack.apply("apiVersion: eventing.knative.dev/v1\nkind: Broker\nmetadata: {name: kept}\n")
        for name in ("kafka", "apiserver", "ingress", "control", "pipeline"):
            _kill_and_wait(stack, name)
        family = psutil.Process(stack.process.pid).children(recursive=True)
        assert len([process for process in family if _name(process) == "java"]) == 2
    finally:
        stack.process.kill()
        stack.process.wait()
    _, alive = psutil.wait_procs(family, timeout=60)
    assert not [process for process in alive if _is_alive(process)]

    again = start_stack(tmp_path / "data")
    try:
        assert "kept" in again.kubectl("get", "brokers", "-o", "name")
    finally:
        seconds = stop_process(again.process)
    assert again.process.returncode == 0
    assert seconds < STOP_SECONDS


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _name(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.NoSuchProcess:  # some come and go
        return ""


def _kill_and_wait(stack: Stack, name: str) -> None:
    before: dict[str, Any] = stack.record["components"][name]
    os.kill(before["pid"], signal.SIGKILL)

    def recovered() -> bool:
        components = stack.record["components"]
        now = components[name]
        states = {one["state"] for one in components.values()}
        return now["pid"] not in (None, before["pid"]) and states <= {"ready", "resting"}

    eventually(recovered, seconds=300)
