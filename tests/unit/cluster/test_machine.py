"""What a cluster on this machine is made of: the executor to hit, and programs that may be missing."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tools.cluster import kubernetes_binaries as binaries
from tools.cluster import needs
from tools.cluster.spark_faults import speaks_with

CONNECTED = """
import socket, subprocess, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))):
    print("connected", flush=True)
    sys.stdin.read()
"""
PARENT = "import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-S', '-c', *sys.argv[1:]]))"


def test_the_executor_that_delivers_is_known_by_the_connections_of_its_children() -> None:
    with socket.create_server(("127.0.0.1", 0)) as subscribers, socket.create_server(("127.0.0.1", 0)) as others:
        port, other = subscribers.getsockname()[1], others.getsockname()[1]
        command = [sys.executable, "-S", "-c", PARENT, CONNECTED, str(port)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as executor:
            assert executor.stdout is not None
            assert executor.stdout.readline() == b"connected\n"
            process = psutil.Process(executor.pid)
            assert speaks_with(process, port)
            assert not speaks_with(process, other)
            executor.communicate()


def test_an_executor_that_is_gone_speaks_with_nobody() -> None:
    ended = subprocess.Popen([sys.executable, "-S", "-c", ""])
    process = psutil.Process(ended.pid)
    ended.wait()
    assert not speaks_with(process, 1)


def test_without_go_and_programs_it_is_said_how_to_get_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert [problem.what for problem in needs.missing() if "go is not" in problem.what] == [binaries.NO_GO]
    assert binaries.build(*binaries.PROGRAMS) == 2
    assert "Install Go" in capsys.readouterr().out


def test_what_is_built_already_needs_no_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", os.devnull)
    binaries.folder().mkdir(parents=True)
    for name in binaries.PROGRAMS:
        (binaries.folder() / name).touch()
    assert binaries.build(*binaries.PROGRAMS) == 0
    assert binaries.missing() == ["helm"]
