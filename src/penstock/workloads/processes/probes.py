"""Probes: what a container is asked, how often, and what the answers mean. Pure.

Until a container is ready for the first time it is asked several times a second, whatever the period: a Pod is ready
as soon as its program is. Afterwards the period holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from penstock.workloads.processes.environment import ConfigError

Name = Literal["startup", "readiness", "liveness"]
NAMES: tuple[Name, ...] = ("startup", "readiness", "liveness")
EAGER_SECONDS = 0.25


@dataclass(frozen=True)
class Probe:
    """One probe of a container, with Kubernetes' defaults."""

    name: Name
    action: Mapping[str, Any]
    """`httpGet`, `tcpSocket`, `grpc` or `exec`, with what it says."""
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
    """The probes of a container that ask anything."""
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
    """Answers in a row, and what they make of what was held so far."""

    probe: Probe
    held: bool
    successes: int = field(default=0, init=False)
    failures: int = field(default=0, init=False)

    def take(self, success: bool) -> bool:
        """Takes an answer; what holds now."""
        self.successes = self.successes + 1 if success else 0
        self.failures = 0 if success else self.failures + 1
        if success:
            return self.held or self.successes >= self.probe.success_threshold
        return self.held and self.failures < self.probe.failure_threshold

    def tells(self) -> bool:
        """Whether a failure now is worth an Event: not each of the many of a container that only starts."""
        return self.held or (self.failures > 0 and self.failures * EAGER_SECONDS % self.probe.period < EAGER_SECONDS)


def port_number(container: Mapping[str, Any], port: int | str) -> int:
    """The number of a port that may be given by its name. Raises ConfigError."""
    if isinstance(port, int) or port.isdigit():
        return int(port)
    for declared in container.get("ports") or ():
        if declared.get("name") == port:
            return int(declared["containerPort"])
    raise ConfigError(f"couldn't find port: {port}")
