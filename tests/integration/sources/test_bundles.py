"""Trust bundles on the whole stack: programs of SinkBindings and ContainerSources believe their sinks by them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.certificate_files import authority
from tests.running import Stack
from tests.tls_sink import TlsSink, served
from tests.waiting import eventually

NAMESPACE = "bundles"
OWN = authority("bundled")
FILE = "/knative-custom-certs/kn-combined-kne-bundle.pem"
SCRIPT = (
    'while sleep 1; do curl -sS --cacert "$BUNDLE" -H "ce-specversion: 1.0" -H ce-id:1 -H ce-source:/beats '
    '-H ce-type:beat -d x "$K_SINK"; done'
)
LABEL = "networking.knative.dev/trust-bundle=true"


@pytest.fixture
def sink() -> Iterator[TlsSink]:
    with served(OWN) as one:
        yield one


@pytest.fixture
def cluster(stack: Stack, tmp_path: Path) -> Iterator[Stack]:
    (tmp_path / "ca.crt").write_bytes(OWN.certificate)
    system = ("-n", "knative-eventing")
    stack.kubectl("create", "namespace", NAMESPACE)
    stack.kubectl(*system, "create", "configmap", "ours", f"--from-file={tmp_path / 'ca.crt'}")
    stack.kubectl(*system, "label", "configmap", "ours", LABEL)
    yield stack
    stack.kubectl(*system, "delete", "configmap", "ours", "--ignore-not-found")
    stack.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


def bundles(stack: Stack) -> list[str]:
    return stack.kubectl("-n", NAMESPACE, "get", "configmaps", "-l", LABEL, "-o", "name").split()


def test_programs_believe_their_sink_by_a_bundle(cluster: Stack, sink: TlsSink) -> None:
    address = {"uri": sink.url}
    container = {
        "image": "test/shell",
        "command": ["sh", "-c", SCRIPT],
        "env": [{"name": "BUNDLE", "value": FILE}],
    }
    source = {
        "apiVersion": "sources.knative.dev/v1",
        "kind": "ContainerSource",
        "metadata": {"name": "beats", "namespace": NAMESPACE},
        "spec": {"template": {"spec": {"containers": [container]}}, "sink": address},
    }
    binding = {
        "apiVersion": "sources.knative.dev/v1",
        "kind": "SinkBinding",
        "metadata": {"name": "jobs", "namespace": NAMESPACE},
        "spec": {
            "subject": {"apiVersion": "batch/v1", "kind": "Job", "selector": {"matchLabels": {"app": "a"}}},
            "sink": address,
        },
    }
    cluster.apply(json.dumps(source))
    cluster.apply(json.dumps(binding))
    eventually(lambda: "beat" in sink.types, 120)
    wait = ("-n", NAMESPACE, "wait", "--timeout=120s")
    cluster.kubectl(*wait, "--for=condition=Ready", "containersource/beats", "sinkbinding/jobs", timeout=150)
    names = ["configmap/kn-combined-kne-bundlekne-bundle", "configmap/ourskne-bundle"]
    eventually(lambda: bundles(cluster) == names, 120)

    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "shown", "namespace": NAMESPACE, "labels": {"app": "a"}},
        "spec": {
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [
                        {"name": "main", "image": "test/shell", "command": ["cat", "/knative-custom-certs/ca.crt"]}
                    ],
                }
            }
        },
    }
    cluster.apply(json.dumps(job))
    cluster.kubectl(*wait, "--for=condition=complete", "job/shown", timeout=150)
    assert OWN.certificate.decode().strip() in cluster.kubectl("-n", NAMESPACE, "logs", "job/shown")

    cluster.kubectl("-n", NAMESPACE, "delete", "containersource/beats", "sinkbinding/jobs", timeout=120)
    eventually(lambda: bundles(cluster) == [], 120)
