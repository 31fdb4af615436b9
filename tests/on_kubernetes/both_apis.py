"""The same requests to the embedded API and to a real one, and their answers without what cannot be the same."""

from __future__ import annotations

import contextlib
import copy
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from lightkube import KubeConfig
from lightkube.config.client_adapter import Client, ConnectionParams

from penstock.engine.ports import free_ports
from tests.running import kubectl_program
from tools.cluster.kubernetes import READY_SECONDS, RealApi
from tools.cluster.processes import tied

Obj = dict[str, Any]
MERGE, JSON, APPLY = "application/merge-patch+json", "application/json-patch+json", "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
OWN = ("uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "managedFields")
PAGES = ("continue", "remainingItemCount")
"""How a list goes on is each server's own business."""


@dataclass(frozen=True)
class Step:
    """One request."""

    method: str
    path: str
    body: Any = None
    media: str = "application/json"
    accept: str = "application/json"

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@dataclass(frozen=True)
class Answer:
    """What a server said."""

    code: int
    body: Any
    warnings: tuple[str, ...] = ()


class Asked:
    """One of the servers, as the administrator."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        config = KubeConfig.from_file(kubeconfig).get()
        assert config is not None
        self._client: httpx2.Client = Client(config, ConnectionParams(timeout=httpx2.Timeout(30), trust_env=False))

    def close(self) -> None:
        """Ends the connections."""
        self._client.close()

    def raw(self, step: Step) -> httpx2.Response:
        """The answer as it came."""
        content = None if step.body is None else json.dumps(step.body).encode()
        headers = {"Content-Type": step.media, "Accept": step.accept, "User-Agent": "same-answers"}
        return self._client.request(step.method, step.path, content=content, headers=headers)

    def ask(self, step: Step) -> Answer:
        """The answer without what differs by nature."""
        response = self.raw(step)
        warnings = tuple(one.partition('"')[2].rstrip('"') for one in response.headers.get_list("warning"))
        kind = response.headers.get("content-type", "").partition(";")[0]
        body = comparable(response.json()) if kind == "application/json" else response.text
        return Answer(response.status_code, body, warnings)

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """What kubectl prints, errors included."""
        ran = subprocess.run(
            [kubectl_program(), "--kubeconfig", str(self.kubeconfig), *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return ran.stdout + ran.stderr


def comparable(document: Any) -> Any:
    """The document without moments and identities."""
    document = copy.deepcopy(document)
    _strip(document)
    return document


def _strip(value: Any) -> None:
    if isinstance(value, list):
        for one in value:
            _strip(one)
    if not isinstance(value, dict):
        return
    if isinstance(value.get("metadata"), dict):
        for name in OWN:
            value["metadata"].pop(name, None)
        if str(value.get("kind", "")).endswith(("List", "Table")):
            for name in PAGES:
                value["metadata"].pop(name, None)
    if value.get("kind") == "APIResourceList":
        value["resources"] = sorted(map(_described, value["resources"]), key=lambda one: str(one["name"]))
    details = value.get("details")
    if isinstance(details, dict):
        details.pop("uid", None)
    for one in value.values():
        _strip(one)


def _described(resource: Obj) -> Obj:
    """A line of discovery without the order of its verbs, and without what only a storage migrator reads."""
    kept = {name: value for name, value in resource.items() if name != "storageVersionHash"}
    return {**kept, "verbs": sorted(resource["verbs"])}


@contextlib.contextmanager
def embedded_api(folder: Path, **settings: Any) -> Iterator[Path]:
    """`penstock apiserver` in the folder; the administrator's kubeconfig."""
    port, health = free_ports(2)
    env = {**os.environ, **{f"PENSTOCK_{name.upper()}": str(value) for name, value in settings.items()}}
    command = [sys.executable, "-m", "penstock.cli", "apiserver", "--data-dir", str(folder / "data")]
    command += ["--api-port", str(port), "--health-port", str(health)]
    kubeconfig = folder / "data" / "kubeconfig"
    with (folder / "apiserver.log").open("wb") as output, tied(command) as (command, fds):
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=env, pass_fds=fds, cwd=folder)
    try:
        deadline = time.monotonic() + READY_SECONDS
        while not _serves(kubeconfig):
            if process.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"the embedded API does not come up:\n{(folder / 'apiserver.log').read_text()[-3000:]}")
            time.sleep(0.2)
        yield kubeconfig
    finally:
        process.terminate()
        process.wait(60)


def _serves(kubeconfig: Path) -> bool:
    if not kubeconfig.is_file():
        return False
    asked = Asked(kubeconfig)
    try:
        return asked.raw(Step("GET", "/readyz")).status_code == 200
    except httpx2.HTTPError:
        return False
    finally:
        asked.close()


def start_webhook(api: RealApi) -> None:
    """The webhook as the process that its Pod would be, reached through its Service."""
    (port,) = free_ports(1)
    health = api.start_role("webhook", "penstock-webhook", webhook_port=port)
    api.ports["webhook"] = port
    api.lead_service("penstock-webhook", "https", port)
    api.wait_ready("webhook", health)
