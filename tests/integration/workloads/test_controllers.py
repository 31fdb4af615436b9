"""Deployments, Jobs and CronJobs on the whole stack, as kubectl's users know them."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.running import Stack
from tests.waiting import eventually

NAMESPACE = "batch"
DEPLOYMENT = """
apiVersion: v1
kind: Service
metadata: {name: shows, namespace: batch}
spec: {selector: {app: shows}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: shows, namespace: batch}
spec:
  replicas: 2
  selector: {matchLabels: {app: shows}}
  template:
    metadata: {labels: {app: shows}}
    spec: {containers: [{name: user-container, image: ko.local/event_display}]}
"""
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {{name: {name}, namespace: batch}}
spec:
  backoffLimit: {limit}
  template:
    spec:
      restartPolicy: Never
      containers: [{{name: main, image: test/shell, command: [sh, -c], args: ["{script}"]}}]
"""


@pytest.fixture(scope="module")
def batch(stack: Stack) -> Iterator[Stack]:
    stack.kubectl("create", "namespace", NAMESPACE)
    stack.apply(DEPLOYMENT)
    stack.kubectl("-n", NAMESPACE, "rollout", "status", "deploy/shows", "--timeout=120s", timeout=150)
    yield stack
    stack.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


def images(stack: Stack) -> list[str]:
    pods = json.loads(stack.kubectl("-n", NAMESPACE, "get", "pods", "-l", "app=shows", "-o", "json"))["items"]
    return [pod["spec"]["containers"][0]["image"] for pod in pods if not pod["metadata"].get("deletionTimestamp")]


def test_a_deployment_scales_and_replaces_its_pods(batch: Stack) -> None:
    batch.kubectl("-n", NAMESPACE, "scale", "deploy/shows", "--replicas=3")
    eventually(lambda: len(images(batch)) == 3, 120)
    batch.kubectl("-n", NAMESPACE, "set", "image", "deploy/shows", "user-container=other/event_display")
    batch.kubectl("-n", NAMESPACE, "rollout", "status", "deploy/shows", "--timeout=120s", timeout=150)
    eventually(lambda: images(batch) == ["other/event_display"] * 3, 120)
    batch.kubectl("-n", NAMESPACE, "rollout", "undo", "deploy/shows")
    eventually(lambda: images(batch) == ["ko.local/event_display"] * 3, 120)
    assert "3" in batch.kubectl("-n", NAMESPACE, "rollout", "history", "deploy/shows").split()


@pytest.mark.parametrize("host", ["shows", "shows.batch", "shows.batch.svc", "shows.batch.svc.cluster.local"])
def test_a_job_reaches_a_service_by_its_name(batch: Stack, host: str) -> None:
    name = f"curl-{host.count('.')}"
    command = f"curl -sS --max-time 20 --retry 9 --retry-connrefused -w '%{{http_code}}' http://{host}/healthz"
    batch.apply(JOB.format(name=name, limit=6, script=command))
    batch.kubectl("-n", NAMESPACE, "wait", "--for=condition=complete", f"job/{name}", "--timeout=120s", timeout=150)
    assert batch.kubectl("-n", NAMESPACE, "logs", f"job/{name}") == "204"


def test_a_job_that_fails_for_ever_stops_at_its_limit(batch: Stack) -> None:
    batch.apply(JOB.format(name="failing", limit=0, script="exit 7"))
    batch.kubectl("-n", NAMESPACE, "wait", "--for=condition=failed", "job/failing", "--timeout=120s", timeout=150)
    failed = json.loads(batch.kubectl("-n", NAMESPACE, "get", "job", "failing", "-o", "json"))["status"]
    (condition,) = [one for one in failed["conditions"] if one["type"] == "Failed"]
    assert (condition["reason"], failed["failed"]) == ("BackoffLimitExceeded", 1)


def test_what_a_job_made_goes_with_it(batch: Stack) -> None:
    batch.apply(JOB.format(name="short", limit=0, script="true"))
    batch.kubectl("-n", NAMESPACE, "wait", "--for=condition=complete", "job/short", "--timeout=120s", timeout=150)
    batch.kubectl("-n", NAMESPACE, "delete", "job", "short")
    eventually(
        lambda: "No resources" in batch.kubectl("-n", NAMESPACE, "get", "pods", "-l", "job-name=short", check=False), 60
    )


def test_a_job_made_by_hand_from_a_cronjob(batch: Stack) -> None:
    batch.kubectl(
        *("-n", NAMESPACE, "create", "cronjob", "nightly", "--image=test/shell", "--schedule=0 3 * * *"),
        *("--restart=Never", "--", "echo", "good night"),
    )
    batch.kubectl("-n", NAMESPACE, "create", "job", "tonight", "--from=cronjob/nightly")
    batch.kubectl("-n", NAMESPACE, "wait", "--for=condition=complete", "job/tonight", "--timeout=120s", timeout=150)
    assert batch.kubectl("-n", NAMESPACE, "logs", "job/tonight") == "good night\n"
