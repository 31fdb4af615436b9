"""A network of a run's own: what runs there reaches this machine by its own address, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tools.cluster import own_network

LOOK = """
import os, socket
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
    probe.connect(("192.0.2.254", 9))
    print(probe.getsockname()[0], os.environ["CLUSTER_NETWORK"])
"""


def test_what_runs_there_has_an_address_of_its_own() -> None:
    said = _run("-c", LOOK)
    if own_network.NOT_ALLOWED in said.stderr:
        assert not own_network._allowed()
    else:
        assert said.stdout.split()[:2] == [own_network.ADDRESS, own_network.OWN]


def test_the_exit_code_is_that_of_the_command() -> None:
    assert _run("-c", "raise SystemExit(7)").returncode == 7


def test_where_the_programs_are_missing_it_is_not_entered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    own_network.enter(["true"])
    assert not own_network.inside()


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tools.cluster.own_network", sys.executable, *arguments]
    env = {name: value for name, value in os.environ.items() if name != own_network.INSIDE}
    return subprocess.run(command, capture_output=True, text=True, env=env, check=False)
