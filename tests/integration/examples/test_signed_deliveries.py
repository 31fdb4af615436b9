"""Signed deliveries as their page describes them, on a whole stack, with the receiver of the examples."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import secrets
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.running import Stack, held_ports
from tests.waiting import eventually

RECEIVER = Path(__file__).parents[3] / "examples" / "security" / "signed_receiver.py"
NAMESPACE = "signed"
HERE = """
apiVersion: eventing.knative.dev/v1
kind: Broker
metadata: {{name: orders, namespace: signed}}
---
apiVersion: eventing.knative.dev/v1
kind: Trigger
metadata: {{name: orders, namespace: signed, annotations: {{penstock.dev/sign-with: orders-signing}}}}
spec:
  broker: orders
  subscriber: {{uri: "http://127.0.0.1:{port}/"}}
  delivery: {{retry: 100, backoffPolicy: linear, backoffDelay: PT0.2S}}
"""


def new_secret() -> str:
    return "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()


class Receiver:
    """The example as a process, and what it printed."""

    def __init__(self, secret: str, port: int) -> None:
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            [sys.executable, str(RECEIVER), str(port)],
            env={**os.environ, "WEBHOOK_SECRET": secret},
            stdout=subprocess.PIPE,
            text=True,
        )
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as printed:
            self.lines += iter(printed.readline, "")

    def got(self, ident: str) -> bool:
        return any(line.startswith("genuine: ") and f"'id': '{ident}'" in line for line in self.lines)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(60)
        self._thread.join(60)


@pytest.fixture
def namespace(stack: Stack) -> Iterator[None]:
    stack.kubectl("create", "namespace", NAMESPACE)
    yield
    stack.kubectl("delete", "namespace", NAMESPACE, "--wait=false", check=False)


@pytest.fixture
def port() -> int:
    return held_ports(1)[0]


def trigger(stack: Stack) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(stack.kubectl("get", "trigger", "orders", "-n", NAMESPACE, "-o", "json"))
    return found.get("status") or {}


def reason(stack: Stack) -> str | None:
    conditions = trigger(stack).get("conditions") or []
    return next((one.get("reason") for one in conditions if one["type"] == "SecretsResolved"), None)


def send(url: str, ident: str) -> None:
    headers = {"ce-specversion": "1.0", "ce-id": ident, "ce-source": "/till", "ce-type": "sold"}
    sent = httpx2.post(url, headers={**headers, "content-type": "application/json"}, content=b"{}", timeout=60)
    assert sent.status_code == 202


def test_events_wait_for_the_secret_and_are_genuine_whichever_is_in_force(
    stack: Stack, namespace: None, port: int
) -> None:
    old, new = new_secret(), new_secret()
    stack.apply(HERE.format(port=port))
    eventually(lambda: reason(stack) == "SigningSecretMissing")
    url = eventually(
        lambda: stack.kubectl("get", "broker", "orders", "-n", NAMESPACE, "-o", "jsonpath={.status.address.url}")
    )
    receiver = Receiver(old, port)
    try:
        send(url, "waits")
        secret = ("secret", "generic", "orders-signing", "-n", NAMESPACE)
        stack.kubectl("create", *secret, f"--from-literal=old={old}")
        eventually(lambda: receiver.got("waits"), 120)
        both = json.dumps({"stringData": {"new": new}})
        stack.kubectl("patch", "secret", "orders-signing", "-n", NAMESPACE, "-p", both)
        send(url, "of both")
        eventually(lambda: receiver.got("of both"), 120)
    finally:
        receiver.stop()
    receiver = Receiver(new, port)
    try:
        gone = json.dumps([{"op": "remove", "path": "/data/old"}])
        stack.kubectl("patch", "secret", "orders-signing", "-n", NAMESPACE, "--type", "json", "-p", gone)
        send(url, "of the new one")
        eventually(lambda: receiver.got("of the new one"), 120)
    finally:
        receiver.stop()
    shown = [secret.removeprefix("whsec_").encode() for secret in (old, new)]
    shown += [base64.b64encode(secret.encode()) for secret in (old, new)]
    for path in (*stack.settings.data_dir.rglob("kafka/**/*"), *stack.settings.data_dir.glob("logs/*")):
        with contextlib.suppress(FileNotFoundError, IsADirectoryError):  # files come and go in a running stack
            held = path.read_bytes()
            assert not [one for one in shown if one in held], path
