"""What Deployments and ReplicaSets ask for, and how one template replaces another."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from penstock.controllers.workloads import deployments
from penstock.controllers.workloads.deployments import HASH_LABEL, REVISION, bounds, decide, template_hash
from penstock.kube.kinds import Obj
from penstock.runtime.times import rfc3339

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def deployment(image: str = "a", replicas: int = 3, status: Obj | None = None, **spec: Any) -> Obj:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image}]}}
    base = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    metadata = {"name": "web", "namespace": "ns", "uid": "d1", "generation": 1}
    return {"metadata": metadata, "spec": base | spec, "status": status or {}}


def replicaset(of: Obj, size: int, available: int | None = None, revision: int = 1, exists: int | None = None) -> Obj:
    made = copy.deepcopy(deployments.replicaset_of(of, revision))
    made["spec"]["replicas"] = size
    ready = size if available is None else available
    counts = {"replicas": size if exists is None else exists, "readyReplicas": ready, "availableReplicas": ready}
    return {**made, "status": counts}


def sizes(decision: deployments.DeploymentDecision) -> dict[str, int]:
    return {rs["spec"]["template"]["spec"]["containers"][0]["image"]: size for rs, size in decision.scale}


def conditions(status: Obj) -> dict[str, tuple[str, str]]:
    return {one["type"]: (one["status"], one["reason"]) for one in status["conditions"]}


def test_a_new_deployment_gets_a_replicaset_with_the_hash_of_its_template() -> None:
    decision = decide(deployment(), [], NOW)
    assert decision.create is not None
    digest = template_hash(deployment()["spec"]["template"])
    assert decision.create["metadata"]["name"] == f"web-{digest}"
    assert decision.create["spec"]["selector"]["matchLabels"] == {"app": "web", HASH_LABEL: digest}
    assert decision.create["spec"]["template"]["metadata"]["labels"][HASH_LABEL] == digest
    assert decision.create["metadata"]["annotations"][REVISION] == "1"
    assert decision.create["spec"]["replicas"] == 3
    assert conditions(decision.status)["Progressing"] == ("True", "NewReplicaSetCreated")


def test_a_deployment_whose_pods_are_there_is_available_and_done() -> None:
    decision = decide(deployment(), [replicaset(deployment(), 3)], NOW)
    assert (decision.create, decision.scale, decision.revision) == (None, (), "1")
    assert conditions(decision.status) == {
        "Available": ("True", "MinimumReplicasAvailable"),
        "Progressing": ("True", "NewReplicaSetAvailable"),
    }
    same = decide(deployment(status=decision.status), [replicaset(deployment(), 3)], NOW + timedelta(hours=1))
    assert same.status == decision.status


def test_scaling_changes_the_replicaset_alone() -> None:
    assert sizes(decide(deployment(replicas=5), [replicaset(deployment(), 3)], NOW)) == {"a": 5}
    assert sizes(decide(deployment(replicas=0), [replicaset(deployment(), 3)], NOW)) == {"a": 0}


def test_a_new_template_replaces_the_old_one_pod_by_pod() -> None:
    old, new = deployment("a"), deployment("b")
    first = decide(new, [replicaset(old, 3)], NOW)
    assert first.create is not None
    assert (first.create["spec"]["replicas"], first.revision) == (1, "2")
    waiting = decide(new, [replicaset(old, 3), replicaset(new, 1, 0, 2)], NOW)
    assert waiting.scale == ()
    assert sizes(decide(new, [replicaset(old, 3), replicaset(new, 1, 1, 2)], NOW)) == {"a": 2}
    assert sizes(decide(new, [replicaset(old, 2), replicaset(new, 1, 1, 2)], NOW)) == {"b": 2}
    last = decide(new, [replicaset(old, 0), replicaset(new, 3, 3, 2)], NOW)
    assert (last.scale, conditions(last.status)["Progressing"]) == ((), ("True", "NewReplicaSetAvailable"))


def test_old_pods_that_serve_nobody_make_room() -> None:
    old, new = deployment("a", 4), deployment("b", 4)
    assert sizes(decide(new, [replicaset(old, 4, 0), replicaset(new, 1, 0, 2)], NOW)) == {"a": 3}


def test_recreate_waits_for_the_old_pods_to_be_gone() -> None:
    old, new = deployment("a"), deployment("b", strategy={"type": "Recreate"})
    made = decide(new, [replicaset(old, 3)], NOW).create
    assert made is not None
    assert made["spec"]["replicas"] == 0
    assert sizes(decide(new, [replicaset(old, 3), replicaset(new, 0, revision=2)], NOW)) == {"a": 0}
    assert decide(new, [replicaset(old, 0, exists=1), replicaset(new, 0, revision=2)], NOW).scale == ()
    assert sizes(decide(new, [replicaset(old, 0), replicaset(new, 0, revision=2)], NOW)) == {"b": 3}


def test_going_back_takes_the_old_replicaset_with_a_new_revision() -> None:
    old, new = deployment("a"), deployment("b")
    decision = decide(old, [replicaset(old, 0), replicaset(new, 3, revision=2)], NOW)
    assert decision.create is None
    assert decision.revise is not None
    assert decision.revise["metadata"]["annotations"][REVISION] == "3"


def test_a_replacement_that_does_not_move_is_told_after_its_deadline() -> None:
    new = deployment(progressDeadlineSeconds=60)
    stuck = [replicaset(new, 3, 0)]
    status = decide(new, stuck, NOW).status
    held = deployment(status=status, progressDeadlineSeconds=60)
    assert decide(held, stuck, NOW + timedelta(seconds=30)).again == pytest.approx(30)
    late = decide(held, stuck, NOW + timedelta(seconds=60)).status
    assert conditions(late)["Progressing"] == ("False", "ProgressDeadlineExceeded")


def test_old_replicasets_beyond_the_history_are_forgotten() -> None:
    past = [replicaset(deployment(f"v{number}"), 0, revision=number) for number in range(1, 4)]
    now = deployment("now", revisionHistoryLimit=2)
    decision = decide(now, [*past, replicaset(now, 3, revision=4)], NOW)
    assert [one["metadata"]["annotations"][REVISION] for one in decision.delete] == ["1"]


@pytest.mark.parametrize(
    ("rolling", "wanted", "expected"),
    [
        ({}, 4, (1, 1)),
        ({}, 1, (1, 0)),
        ({"maxSurge": 0, "maxUnavailable": 0}, 3, (0, 1)),
        ({"maxSurge": "50%", "maxUnavailable": "50%"}, 3, (2, 1)),
        ({"maxSurge": 2, "maxUnavailable": 9}, 3, (2, 3)),
    ],
)
def test_bounds_of_a_replacement(rolling: Obj, wanted: int, expected: tuple[int, int]) -> None:
    assert bounds(deployment(replicas=wanted, strategy={"type": "RollingUpdate", "rollingUpdate": rolling})) == expected


def pod(name: str, ready: datetime | None = None, phase: str = "Running", leaving: bool = False) -> Obj:
    moment = {"lastTransitionTime": rfc3339(ready or NOW)}
    conditions = [{"type": "Ready", "status": "True" if ready else "False", **moment}]
    metadata = {"name": name, "namespace": "ns", **({"deletionTimestamp": rfc3339(NOW)} if leaving else {})}
    return {"metadata": metadata, "status": {"phase": phase, "conditions": conditions}}


def test_a_replicaset_keeps_as_many_pods_as_it_says() -> None:
    wanted = {"metadata": {"generation": 2}, "spec": {"replicas": 3}}
    pods = [pod("a", NOW), pod("b"), pod("gone", leaving=True), pod("over", phase="Failed")]
    decision = deployments.decide_replicaset(wanted, pods, NOW)
    assert (decision.create, decision.delete) == (1, ())
    assert decision.status == {
        "replicas": 2,
        "fullyLabeledReplicas": 2,
        "readyReplicas": 1,
        "availableReplicas": 1,
        "observedGeneration": 2,
    }


def test_pods_that_are_not_ready_and_the_youngest_go_first() -> None:
    wanted = {"metadata": {}, "spec": {"replicas": 1}}
    pods = [pod("old", NOW - timedelta(hours=1)), pod("young", NOW), pod("starting")]
    assert [one["metadata"]["name"] for one in deployments.decide_replicaset(wanted, pods, NOW).delete] == [
        "starting",
        "young",
    ]


def test_a_pod_is_available_once_it_was_ready_for_a_while() -> None:
    wanted = {"metadata": {}, "spec": {"replicas": 1, "minReadySeconds": 10}}
    decision = deployments.decide_replicaset(wanted, [pod("a", NOW - timedelta(seconds=4))], NOW)
    assert decision.status["availableReplicas"] == 0
    assert decision.again == pytest.approx(6)
