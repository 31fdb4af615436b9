"""Probes of containers: their configuration, when their result changes, and the checks by HTTP, TCP and commands.

Until a container is ready for the first time it is checked several times a second, whatever the period, so that a Pod
is ready as soon as its program is. Afterwards the period applies."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

from pyreqwest.client import Client
from pyreqwest.exceptions import PyreqwestError

from penstock.workloads.processes.environment import ConfigError

Name = Literal["startup", "readiness", "liveness"]
NAMES: tuple[Name, ...] = ("startup", "readiness", "liveness")
EAGER_SECONDS = 0.25


@dataclass(frozen=True)
class Probe:
    """One probe of a container, with Kubernetes' defaults."""

    name: Name
    action: Mapping[str, Any]
    """`httpGet`, `tcpSocket`, `grpc` or `exec`, with its fields."""
    initial_delay: float = 0.0
    period: float = 10.0
    timeout: float = 1.0
    success_threshold: int = 1
    failure_threshold: int = 3
    grace: float | None = None

    def pause(self, *, eager: bool) -> float:
        """Seconds until the next check."""
        return min(self.period, EAGER_SECONDS) if eager else self.period


def read_probes(container: Mapping[str, Any]) -> dict[Name, Probe]:
    """The probes of a container that have an action."""
    found = {name: container.get(f"{name}Probe") for name in NAMES}
    actions = ("httpGet", "tcpSocket", "grpc", "exec")
    return {name: _read(name, probe) for name, probe in found.items() if probe and any(probe.get(a) for a in actions)}


def _read(name: Name, probe: Mapping[str, Any]) -> Probe:
    action = next({kind: probe[kind]} for kind in ("httpGet", "tcpSocket", "grpc", "exec") if probe.get(kind))
    return Probe(
        name,
        action,
        initial_delay=float(probe.get("initialDelaySeconds") or 0),
        period=float(probe.get("periodSeconds") or 10),
        timeout=float(probe.get("timeoutSeconds") or 1),
        success_threshold=int(probe.get("successThreshold") or 1),
        failure_threshold=int(probe.get("failureThreshold") or 3),
        grace=probe.get("terminationGracePeriodSeconds"),
    )


@dataclass
class Count:
    """Consecutive results of a probe, and the state they lead to."""

    probe: Probe
    held: bool
    successes: int = field(default=0, init=False)
    failures: int = field(default=0, init=False)

    def take(self, success: bool) -> bool:
        """Counts a result; the new state."""
        self.successes = self.successes + 1 if success else 0
        self.failures = 0 if success else self.failures + 1
        if success:
            return self.held or self.successes >= self.probe.success_threshold
        return self.held and self.failures < self.probe.failure_threshold

    def is_worth_an_event(self) -> bool:
        """Whether to record an Event for a failure: while a container starts, only one per period."""
        return self.held or (self.failures > 0 and self.failures * EAGER_SECONDS % self.probe.period < EAGER_SECONDS)


def port_number(container: Mapping[str, Any], port: int | str) -> int:
    """The number of a port that may be a name. Raises ConfigError."""
    if isinstance(port, int) or port.isdigit():
        return int(port)
    for declared in container.get("ports") or ():
        if declared.get("name") == port:
            return int(declared["containerPort"])
    raise ConfigError(f"couldn't find port: {port}")


USER_AGENT = "kube-probe/1.34"
MOST_OUTPUT = 10 * 1024


async def http_get(client: Client, action: Mapping[str, Any], host: str, port: int, seconds: float) -> str | None:
    """None for a status from 200 to 399, otherwise the error."""
    scheme, path = str(action.get("scheme") or "HTTP").lower(), str(action.get("path") or "/")
    url = f"{scheme}://{action.get('host') or host}:{port}{path if path.startswith('/') else f'/{path}'}"
    request = client.get(url).header("User-Agent", USER_AGENT).timeout(timedelta(seconds=seconds))
    for header in action.get("httpHeaders") or ():
        request = request.header(header["name"], str(header.get("value") or ""))
    try:
        response = await request.build().send()
    except PyreqwestError as error:
        return f'Get "{url}": {error}'
    return None if 200 <= response.status < 400 else f"HTTP probe failed with statuscode: {response.status}"


async def connect(host: str, port: int, seconds: float) -> str | None:
    """None if the connection is accepted, otherwise the error."""
    try:
        async with asyncio.timeout(seconds):
            _, writer = await asyncio.open_connection(host, port)
    except TimeoutError:
        return f"dial tcp {host}:{port}: i/o timeout"
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        return f"dial tcp {host}:{port}: connect: {reason.lower()}"
    writer.close()
    return None


async def execute(command: Sequence[str], env: Mapping[str, str], folder: Path, seconds: float) -> str | None:
    """None if the command exits with 0, otherwise the error."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            env=dict(env),
            cwd=folder,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        return f'exec: "{command[0]}": {(error.strerror or str(error)).lower()}'
    try:
        async with asyncio.timeout(seconds):
            output, _ = await process.communicate()
    except TimeoutError:
        return f"command timed out: {' '.join(command)!r} timed out after {seconds:g}s"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    return None if process.returncode == 0 else output[:MOST_OUTPUT].decode(errors="replace")
