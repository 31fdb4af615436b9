"""A stack on a Kafka that is there already: nothing is started beside it, and its topics are made."""

from __future__ import annotations

import urllib.request
from pathlib import Path

import pytest

from penstock.engine import ports
from penstock.engine.jars import Jars
from penstock.settings import Settings
from running import running_kafka, start_stack, stop_process

BROKER = "apiVersion: eventing.knative.dev/v1\nkind: Broker\nmetadata: {name: default}\n"
EVENT = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/test", "ce-type": "test"}


@pytest.mark.timeout(600)
def test_events_are_accepted_into_a_given_kafka_by_several_ingress_processes(tmp_path: Path, jar_folders: Jars) -> None:
    (tmp_path / "given").mkdir()
    given = ports.resolve(Settings(port=0, data_dir=tmp_path / "given"))
    with running_kafka(given, jar_folders):
        stack = start_stack(tmp_path / "data", "--kafka", given.bootstrap, "--set", "ingress_processes=2")
        try:
            assert list(stack.record["components"]) == ["apiserver", "ingress-1", "ingress-2", "control", "pipeline"]
            assert not (tmp_path / "data" / "kafka").exists()
            stack.apply(BROKER)
            stack.kubectl("wait", "--for=condition=Ready", "broker/default", "--timeout=150s", timeout=170)
            for _ in range(20):
                request = urllib.request.Request(
                    f"{stack.settings.ingress_url}/default/default", data=b"{}", headers=EVENT, method="POST"
                )
                with urllib.request.urlopen(request, timeout=10) as answer:
                    assert answer.status == 202
        finally:
            stop_process(stack.process)
