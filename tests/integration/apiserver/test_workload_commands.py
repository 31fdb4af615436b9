"""What kubectl's users do with Deployments, Jobs and Leases, as far as the server itself answers it."""

from __future__ import annotations

from collections.abc import Callable

Kubectl = Callable[..., str]


def test_a_deployment_is_created_scaled_and_described(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "web", "--image=example/web", "--replicas=2")
    header, row = kubectl("get", "deployments").splitlines()
    assert header.split() == ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"]
    assert row.split()[1] == "0/2"
    assert "scaled" in kubectl("scale", "deployment/web", "--replicas=5")
    assert kubectl("get", "deploy", "web", "-o", "jsonpath={.spec.replicas} {.metadata.generation}") == "5 2"
    assert "restarted" in kubectl("rollout", "restart", "deployment/web")
    assert "RollingUpdateStrategy" in kubectl("describe", "deployment", "web")
    assert "must be greater than or equal to 0" in kubectl(
        *("patch", "deployment", "web", "--subresource=scale", "--type=merge", "-p", '{"spec":{"replicas":-1}}'),
        ok=False,
    )
    assert (
        kubectl("get", "deployment", "web", "--subresource=scale", "-o", "jsonpath={.kind} {.spec.replicas}")
        == "Scale 5"
    )


def test_a_job_is_created_by_hand_and_from_a_cronjob(kubectl: Kubectl) -> None:
    kubectl("create", "job", "once", "--image=example/once")
    header, row = kubectl("get", "jobs").splitlines()
    assert header.split() == ["NAME", "STATUS", "COMPLETIONS", "DURATION", "AGE"]
    assert row.split()[1:3] == ["Running", "0/1"]
    kubectl("create", "cronjob", "often", "--image=example/often", "--schedule=*/5 * * * *")
    assert kubectl("get", "cronjobs").splitlines()[0].split()[:3] == ["NAME", "SCHEDULE", "TIMEZONE"]
    kubectl("create", "job", "early", "--from=cronjob/often")
    assert kubectl("get", "job", "early", "-o", "jsonpath={.metadata.ownerReferences[0].kind}") == "CronJob"
    kubectl("delete", "cronjob", "often")
    assert kubectl("get", "jobs", "-o", "name").split() == ["job.batch/once"]
    assert "Pods Statuses" in kubectl("describe", "job", "once")


def test_the_new_kinds_are_explained(kubectl: Kubectl) -> None:
    for path, word in (
        ("deployment.spec.strategy", "rollingUpdate"),
        ("replicaset.spec", "template"),
        ("job.spec", "backoffLimit"),
        ("cronjob.spec", "concurrencyPolicy"),
        ("lease.spec", "holderIdentity"),
        ("endpointslice.endpoints", "conditions"),
    ):
        assert word in kubectl("explain", path)
