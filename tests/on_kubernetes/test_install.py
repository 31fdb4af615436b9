"""What `penstock install` puts into a real cluster: valid, repeatable, with no more rights than are used."""

from __future__ import annotations

import base64
import json
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import yaml

from penstock.install.manifests import chosen
from penstock.install.values import Values
from penstock.web.certificates import issue_certificate, lasts_for
from penstock.webhook import certificates
from penstock.webhook.certificates import certificates_in, secret_data
from tests.on_kubernetes.both_apis import start_webhook
from tools.cluster.kubernetes import RealApi

Obj = dict[str, Any]
NAMESPACE = "knative-eventing"
BROKER = {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "metadata": {"namespace": "default"}}
ROTATION_SECONDS = 180


def stored(cluster: RealApi, kind: str, name: str) -> Obj:
    found: Obj = json.loads(cluster.kubectl("get", kind, name, "-n", NAMESPACE, "-o", "json"))
    return found


def test_a_second_run_changes_nothing(cluster: RealApi) -> None:
    names = [(one.obj["kind"], one.obj["metadata"]["name"]) for one in chosen(Values())]
    before = [stored(cluster, *name)["metadata"]["resourceVersion"] for name in names]
    assert "refused" not in cluster.install()
    assert [stored(cluster, *name)["metadata"]["resourceVersion"] for name in names] == before


def test_configuration_that_exists_is_the_users(cluster: RealApi) -> None:
    change = '{"data":{"delivery-timeout":"disabled"}}'
    cluster.kubectl("patch", "configmap", "config-features", "-n", NAMESPACE, "--type=merge", "-p", change)
    assert "ConfigMap config-features kept" in cluster.install()
    assert stored(cluster, "configmap", "config-features")["data"]["delivery-timeout"] == "disabled"
    change = '{"data":{"delivery-timeout":"enabled"}}'
    cluster.kubectl("patch", "configmap", "config-features", "-n", NAMESPACE, "--type=merge", "-p", change)


def test_the_api_takes_every_choice(cluster: RealApi) -> None:
    told = cluster.install("--dry-run", "--spark-executors", "--set", "partitions=8", "--image", "elsewhere/penstock:1")
    assert "Role penstock-executors applied (not stored)" in told


def test_pods_of_every_role_pass_the_strictest_profile(cluster: RealApi) -> None:
    for manifest in chosen(Values()):
        if manifest.obj["kind"] != "Deployment":
            continue
        template = manifest.obj["spec"]["template"]
        metadata = {"generateName": "try-", "namespace": NAMESPACE, "labels": template["metadata"]["labels"]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
        told = cluster.kubectl("create", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump(pod))
        assert "created (server dry run)" in told
        assert "Warning" not in told


def test_the_profile_is_really_asked_for(cluster: RealApi) -> None:
    container = {"name": "c", "image": "x"}
    metadata = {"name": "try", "namespace": NAMESPACE}
    account = {"serviceAccountName": "penstock-ingress"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**account, "containers": [container]}}
    told = cluster.kubectl("create", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump(pod), check=False)
    assert 'violates PodSecurity "restricted' in told


def create_broker(cluster: RealApi, name: str) -> str:
    body = {**BROKER, "metadata": {"namespace": "default", "name": name}}
    return cluster.kubectl("create", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump(body), check=False)


def replace_certificates(cluster: RealApi, data: dict[str, str]) -> None:
    patch = json.dumps({"data": data})
    cluster.kubectl("patch", "secret", certificates.CERTIFICATES_SECRET, "-n", NAMESPACE, "--type=merge", "-p", patch)


def test_a_certificate_that_ends_soon_is_made_anew_without_a_restart(cluster: RealApi) -> None:
    held = certificates_in(stored(cluster, "secret", certificates.CERTIFICATES_SECRET)["data"])
    assert held is not None
    soon = issue_certificate(held.authority, "soon", certificates.host_names(), timedelta(days=1), datetime.now(UTC))
    replace_certificates(cluster, secret_data(replace(held, server=soon)))
    deadline = time.monotonic() + ROTATION_SECONDS
    while True:
        assert "created (server dry run)" in create_broker(cluster, "during")  # never unanswered
        after = certificates_in(stored(cluster, "secret", certificates.CERTIFICATES_SECRET)["data"])
        if after is not None and lasts_for(after.server.certificate, timedelta(days=20), datetime.now(UTC)):
            break
        assert time.monotonic() < deadline, cluster.log("webhook")
        time.sleep(1)
    assert after.authority == held.authority


def test_a_lost_authority_is_replaced_wherever_it_is_trusted(cluster: RealApi) -> None:
    before = stored(cluster, "secret", certificates.CERTIFICATES_SECRET)["data"]["ca-cert.pem"]
    replace_certificates(cluster, {"ca-key.pem": ""})
    deadline = time.monotonic() + ROTATION_SECONDS
    while (held := certificates_in(stored(cluster, "secret", certificates.CERTIFICATES_SECRET)["data"])) is None:
        assert time.monotonic() < deadline, cluster.log("webhook")
        time.sleep(1)
    bundle = base64.b64encode(held.bundle).decode()
    assert bundle != before
    for kind, name in certificates.bundle_holders():
        while bundle not in json.dumps(stored(cluster, kind.kind, name)):
            assert time.monotonic() < deadline, cluster.log("webhook")
            time.sleep(1)
    while "created (server dry run)" not in create_broker(cluster, "after"):
        assert time.monotonic() < deadline, cluster.log("webhook")
        time.sleep(1)


def test_while_no_webhook_answers_nothing_is_stored_unjudged(cluster: RealApi) -> None:
    cluster.stop("webhook")
    try:
        assert "failed calling webhook" in create_broker(cluster, "unjudged")
    finally:
        start_webhook(cluster)
    deadline = time.monotonic() + ROTATION_SECONDS
    while "created (server dry run)" not in create_broker(cluster, "judged"):
        assert time.monotonic() < deadline
        time.sleep(0.2)
