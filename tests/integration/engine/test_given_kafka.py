"""A stack on a Kafka that is there already, with TLS, passwords and access rules, and with names of its own.

Nothing is started beside it, its topics are made, and events pass every client: ingress, control, router, dispatcher.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from penstock.engine.jars.jar_cache import Jars
from tests.running import Stack, start_stack, stop_process
from tests.waiting import eventually
from tools.cluster.kafka import KafkaCluster, make_authority, running_cluster

pytestmark = pytest.mark.long

OBJECTS = """
apiVersion: eventing.knative.dev/v1
kind: Broker
metadata: {name: default}
---
apiVersion: v1
kind: Pod
metadata: {name: sink, labels: {app: sink}}
spec: {containers: [{name: sink, image: event_display, ports: [{containerPort: 8080}]}]}
---
apiVersion: v1
kind: Service
metadata: {name: sink}
spec: {selector: {app: sink}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: eventing.knative.dev/v1
kind: Trigger
metadata: {name: all}
spec:
  broker: default
  subscriber: {ref: {apiVersion: v1, kind: Service, name: sink}}
"""
EVENT = {"ce-specversion": "1.0", "ce-source": "/test", "ce-type": "test"}
PREFIX = "blue.penstock"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, jar_folders: Jars) -> Iterator[KafkaCluster]:
    with running_cluster(tmp_path_factory.mktemp("given"), jar_folders) as started:
        started.allow("penstock", PREFIX)
        yield started


def settings_of(cluster: KafkaCluster, **conf: Any) -> list[str]:
    table = {**cluster.conf("penstock"), **conf}
    return ["--kafka", cluster.secure, "--set", f"topic_prefix={PREFIX}", "--set", f"kafka_conf={json.dumps(table)}"]


def send(stack: Stack, ident: int) -> None:
    url = f"{stack.settings.ingress_url}/default/default"
    request = urllib.request.Request(url, data=b"{}", headers={**EVENT, "ce-id": f"n{ident}"}, method="POST")
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.status == 202


@pytest.mark.timeout(600)
def test_events_pass_a_kafka_that_asks_for_passwords_and_rights(tmp_path: Path, cluster: KafkaCluster) -> None:
    stack = start_stack(tmp_path / "data", *settings_of(cluster), "--set", "ingress_processes=2", "--partitions", "2")
    try:
        names = ["apiserver", "ingress-1", "ingress-2", "control", "pipeline", "console", "history"]
        eventually(lambda: list(stack.record["components"]) == names)
        assert not (tmp_path / "data" / "kafka").exists()
        stack.apply(OBJECTS)
        stack.kubectl("wait", "--for=condition=Ready", "trigger/all", "--timeout=150s", timeout=170)
        for ident in range(20):
            send(stack, ident)

        def all_there() -> bool:
            shown = stack.kubectl("logs", "sink")
            return all(f"id: n{ident}\n" in shown for ident in range(20))

        eventually(all_there, 120)
        assert_hidden(stack, cluster.users["penstock"])
    finally:
        stop_process(stack.process)


def assert_hidden(stack: Stack, password: str) -> None:
    """The password stands in no log, no list of processes, and in no file that the stack made."""
    stack_itself = psutil.Process(stack.process.pid)
    for process in (stack_itself, *stack_itself.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):  # some come and go
            assert password not in " ".join(process.cmdline())
    files = [path for path in stack.settings.data_dir.rglob("*") if path.is_file() and not path.is_symlink()]
    written = [password.encode(), password.replace("\\", "\\\\").replace('"', '\\"').encode()]
    assert not [path for path in files if any(form in _content(path) for form in written)]
    assert password not in "\n".join(stack.output)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:  # files come and go in a running stack
        return b""


@pytest.mark.timeout(300)
@pytest.mark.parametrize("wrong", ["password", "ca", "rights", "protocol"])
def test_what_kafka_refuses_is_told_with_the_setting_to_look_at(
    tmp_path: Path, cluster: KafkaCluster, wrong: str
) -> None:
    make_authority(tmp_path, "other")
    kafka, conf, setting = {
        "password": (cluster.secure, cluster.conf("penstock", "wrong"), "sasl.password in kafka_conf"),
        "ca": (cluster.secure, cluster.conf("penstock", ca=tmp_path / "other.crt"), "ssl.ca.location in kafka_conf"),
        "rights": (cluster.secure, cluster.conf("guest"), "the rights in docs/kafka.md"),
        "protocol": (cluster.secure, {}, "security.protocol in kafka_conf"),
    }[wrong]
    command = [sys.executable, "-m", "penstock.cli", "dev", "--port", "0", "--data-dir", str(tmp_path / "data")]
    command += ["--kafka", kafka, "--set", f"kafka_conf={json.dumps(conf)}"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert ran.returncode == 1
    assert setting in ran.stderr + ran.stdout
    assert "Traceback" not in ran.stderr
