"""The stack that faults happen to, its processes, and the promise that every test of them checks."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass

import psutil
import pytest

from tests.integration.faults.producer import Producer, Subscriber
from tests.running import Stack
from tests.waiting import eventually
from tools.chaos import victims
from tools.chaos.checker import Lost
from tools.chaos.trail import trails

RECOVERY_SECONDS = 180
"""Far more than a recovery takes: these tests show that nothing is lost, the chaos run shows how soon it goes on."""
WARNING_SECONDS = 12
"""How long this stack warns of lost events: long enough to be seen, short enough to see it end."""

TRIGGER = """
apiVersion: eventing.knative.dev/v1
kind: Trigger
metadata: {{name: {name}}}
spec:
  broker: faults
  subscriber: {{uri: "{url}"}}
"""


@dataclass
class Ground:
    """A running stack and the subscriber of its Trigger `faults`."""

    stack: Stack
    subscriber: Subscriber
    flags: tuple[str, ...]
    """What the stack was started with."""

    @property
    def url(self) -> str:
        """Where the Broker takes events."""
        return f"{self.stack.settings.ingress_url}/default/faults"

    def settle(self, producer: Producer) -> str:
        """Waits until everything that was accepted has arrived; says how it went."""
        received = self.subscriber.received
        began = time.monotonic()
        while missing := producer.accepted - received.keys():
            if time.monotonic() > began + RECOVERY_SECONDS:
                pytest.fail(self._told(missing), pytrace=False)
            time.sleep(0.1)
        again = sum(count - 1 for ident, count in received.items() if ident in producer.accepted)
        refused = dict(producer.refused)
        seconds = f"{time.monotonic() - began:.1f} s"
        return f"{len(producer.accepted)} accepted, all arrived within {seconds}, {again} again; refused: {refused}"

    def _told(self, missing: set[str]) -> str:
        """Where some of the missing events were seen last, and what the stack says of itself."""
        some = [Lost("faults", ident) for ident in sorted(missing)[:3]]
        lines = [f"{len(missing)} accepted events did not arrive within {RECOVERY_SECONDS} s"]
        for ident, found in trails(self.stack.settings, some).items():
            lines += [f"{ident}:", *(f"  {line}" for line in found)]
        return "\n".join([*lines, json.dumps(self.stack.record), self.stack.logs()])


def process(stack: Stack, name: str, but: int | None = None) -> psutil.Process:
    """A process of the stack by its name in `tools.chaos.plan`, as it runs now; with `but`, another one than that."""

    def look() -> psutil.Process | None:
        found = victims.find(name, stack.record)
        return None if found is None or found.pid == but else found

    found: psutil.Process = eventually(look, RECOVERY_SECONDS, every=0.02)
    return found


def ready(stack: Stack) -> bool:
    """Whether every part of it does its work, or rests because there is none."""
    return {one["state"] for one in stack.record["components"].values()} <= {"ready", "resting", "writing"}
