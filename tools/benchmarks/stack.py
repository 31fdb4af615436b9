"""The two systems under measurement: penstock as `penstock dev` starts it, and upstream's data path as processes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

HERE = Path(__file__).parent
BUILD = HERE / ".build"
START_SECONDS = 300


@dataclass
class Usage:
    """What a set of processes took."""

    cpu_seconds: float = 0.0
    rss_mib: float = 0.0
    by_process: dict[str, float] = field(default_factory=dict)
    """MiB by process."""
    cpu_by_process: dict[str, float] = field(default_factory=dict)
    """CPU seconds by process."""


def usage(root: int) -> Usage:
    """CPU time and memory of a process and all below it, by name."""
    total = Usage()
    for process in [psutil.Process(root), *psutil.Process(root).children(recursive=True)]:
        try:
            times, rss = process.cpu_times(), process.memory_info().rss / 2**20
            name = process_name(process)
        except psutil.NoSuchProcess:
            continue
        total.cpu_seconds += times.user + times.system
        total.rss_mib += rss
        total.by_process[name] = total.by_process.get(name, 0.0) + rss
        total.cpu_by_process[name] = total.cpu_by_process.get(name, 0.0) + times.user + times.system
    return total


def process_name(process: psutil.Process) -> str:
    """What the process does in the stack."""
    line = process.cmdline()
    if line and line[0].endswith("java"):
        return "kafka" if any("kafka.Kafka" in word for word in line) else "spark"
    if "penstock.engine.child" in line:
        return line[line.index("penstock.engine.child") + 1]
    if "penstock.engine.history.run_batch" in line:
        return "history"
    return "dispatcher" if any("pyspark.daemon" in word for word in line) else process.name()


class Penstock:
    """A fresh stack in a folder of its own."""

    def __init__(self, *flags: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="penstock-bench-"))
        started = time.monotonic()
        self.log = (self.folder / "terminal.log").open("wb")
        command = Path(sys.executable).with_name("penstock")
        self.process = subprocess.Popen(
            [str(command), "dev", "--port", "0", "--data-dir", str(self.folder / "data"), *flags],
            stdout=self.log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "NO_COLOR": "1"},
        )
        try:
            self._await_ready()
        except RuntimeError:
            self.stop()
            raise
        self.start_seconds = time.monotonic() - started
        self.settings: dict[str, Any] = json.loads((self.folder / "data/run/settings.json").read_text())

    def _await_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while "export KUBECONFIG" not in self.output():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the stack did not start:\n{self.output()}")
            time.sleep(0.1)

    def output(self) -> str:
        """What the stack said on its terminal."""
        return (self.folder / "terminal.log").read_text(errors="replace")

    @property
    def kubeconfig(self) -> Path:
        """Where kubectl and the API client find the stack."""
        return self.folder / "data/kubeconfig"

    def url(self, path: str) -> str:
        """An address at the ingress."""
        return f"http://127.0.0.1:{self.settings['port']}{path}"

    def secure_url(self, path: str) -> str:
        """The same for HTTPS, where `transport-encryption` lets events in by it."""
        return f"https://127.0.0.1:{self.settings['tls_port']}{path}"

    @property
    def authority(self) -> Path:
        """By what its certificates are believed."""
        return self.folder / "data/pki/ca.crt"

    def usage(self) -> Usage:
        """What the whole stack takes."""
        return usage(self.process.pid)

    def stop(self) -> float:
        """Stops the stack; gives the seconds it took."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGINT)
        self.process.wait(timeout=180)
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        return time.monotonic() - began


class Knative:
    """Upstream's ingress, in-memory channel dispatcher and filter, fed with the given routes."""

    def __init__(self, routes: list[dict[str, Any]]) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="knative-bench-"))
        (self.folder / "routes.json").write_text(json.dumps(routes))
        self.process = subprocess.Popen(
            [
                str(BUILD / "peer"),
                "-binaries",
                str(BUILD),
                "-folder",
                str(self.folder),
                "-routes",
                str(self.folder / "routes.json"),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"upstream's processes did not start; their logs are in {self.folder}")
        self.url = str(json.loads(line)["url"])

    def usage(self) -> Usage:
        """What its processes take."""
        return usage(self.process.pid)

    def stop(self) -> None:
        """Ends its processes."""
        self.process.terminate()
        self.process.wait(timeout=30)
        shutil.rmtree(self.folder, ignore_errors=True)


def build_loadgen() -> None:
    """Builds the load generator on first use."""
    BUILD.mkdir(exist_ok=True)
    subprocess.run(["go", "build", "-o", str(BUILD / "loadgen"), "."], cwd=HERE / "loadgen", check=True)


def build_knative() -> str | None:
    """Builds upstream's data path on first use; says why where it cannot be built."""
    BUILD.mkdir(exist_ok=True)
    packages = ["broker/ingress", "broker/filter", "in_memory/channel_dispatcher"]
    for command in (
        ["go", "build", "-o", f"{BUILD}/", *(f"knative.dev/eventing/cmd/{package}" for package in packages)],
        ["go", "build", "-o", str(BUILD / "peer"), "./peer"],
    ):
        done = subprocess.run(command, cwd=HERE / "knative", capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return done.stderr.strip()[-500:]
    return None


def free_port() -> int:
    """A port that is free now, for the subscribers of all scenarios."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
