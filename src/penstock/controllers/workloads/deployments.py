"""Decisions about Deployments and ReplicaSets: the ReplicaSet of the template, how many Pods the former ones keep in
a rollout, and the number of Pods of a ReplicaSet. Pure."""

from __future__ import annotations

import copy
import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from penstock.controllers.workloads.owned import SUFFIX_LETTERS, is_active, ready_since, reference_to, with_condition
from penstock.kube.kinds import DEPLOYMENT, Obj
from penstock.resources.conditions import find
from penstock.runtime.times import parse_rfc3339, rfc3339

HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
NOT_INHERITED = ("kubectl.kubernetes.io/last-applied-configuration", REVISION)
"""Annotations of a Deployment that its ReplicaSets do not inherit."""


@dataclass(frozen=True)
class DeploymentDecision:
    """What to do about a Deployment."""

    status: dict[str, Any]
    create: Obj | None = None
    """The ReplicaSet that is missing."""
    scale: tuple[tuple[Obj, int], ...] = ()
    """ReplicaSets and how many Pods they should have."""
    revise: Obj | None = None
    """The ReplicaSet of the present template, with its new revision, where an earlier template is used again."""
    delete: tuple[Obj, ...] = ()
    """Former ReplicaSets beyond `revisionHistoryLimit`."""
    revision: str = ""
    again: float | None = None
    """Seconds until the progress deadline."""


def decide(deployment: Obj, replicasets: Iterable[Obj], now: datetime) -> DeploymentDecision:
    """What to do about the Deployment now."""
    sets = list(replicasets)
    spec = deployment["spec"]
    current = next((one for one in sets if same_template(one["spec"]["template"], spec["template"])), None)
    old = [one for one in sets if one is not current]
    latest = max((_revision(one) for one in old), default=0)
    if current is None:
        if spec.get("paused"):
            return DeploymentDecision(_status(deployment, sets, None, now))
        made = replicaset_of(deployment, latest + 1)
        made["spec"]["replicas"] = _first_replicas(deployment, old)
        return DeploymentDecision(_status(deployment, sets, made, now), create=made, revision=str(latest + 1))
    revision = max(_revision(current), latest + 1 if latest >= _revision(current) else 0)
    revised = _with_revision(current, revision) if revision != _revision(current) else None
    return DeploymentDecision(
        _status(deployment, sets, current, now),
        scale=() if spec.get("paused") and len(sets) > 1 else tuple(_scaling(deployment, current, old)),
        revise=revised,
        delete=tuple(_forgotten(deployment, old)),
        revision=str(revision),
        again=_deadline(deployment, sets, current, now),
    )


def replicaset_of(deployment: Obj, revision: int) -> Obj:
    """The ReplicaSet of the Deployment's template."""
    metadata, spec = deployment["metadata"], deployment["spec"]
    digest = template_hash(spec["template"])
    template = copy.deepcopy(spec["template"])
    labels = {**((template.get("metadata") or {}).get("labels") or {}), HASH_LABEL: digest}
    template["metadata"] = {**(template.get("metadata") or {}), "labels": labels}
    selector = copy.deepcopy(spec["selector"])
    selector["matchLabels"] = {**(selector.get("matchLabels") or {}), HASH_LABEL: digest}
    inherited = {k: v for k, v in (metadata.get("annotations") or {}).items() if k not in NOT_INHERITED}
    made: Obj = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{metadata['name']}-{digest}",
            "namespace": metadata["namespace"],
            "labels": labels,
            "annotations": {**inherited, REVISION: str(revision)},
            "ownerReferences": [reference_to(DEPLOYMENT, deployment)],
        },
        "spec": {"replicas": 0, "selector": selector, "template": template},
    }
    if spec.get("minReadySeconds"):
        made["spec"]["minReadySeconds"] = spec["minReadySeconds"]
    return made


def template_hash(template: Mapping[str, Any]) -> str:
    """A short name for the template."""
    text = json.dumps(_bare(template), sort_keys=True, separators=(",", ":"))
    number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])
    letters = []
    for _ in range(10):
        number, digit = divmod(number, len(SUFFIX_LETTERS))
        letters.append(SUFFIX_LETTERS[digit])
    return "".join(letters)


def same_template(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two templates are the same except for the hash."""
    return _bare(one) == _bare(other)


def _bare(template: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {key: value for key, value in (template.get("metadata") or {}).items() if value}
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != HASH_LABEL}
    return {**template, "metadata": {**metadata, "labels": labels}}


def bounds(deployment: Obj) -> tuple[int, int]:
    """(how many Pods more than wanted there may be, how many fewer may be available) during a rollout."""
    spec = deployment["spec"]
    wanted, rolling = int(spec.get("replicas", 1)), (spec.get("strategy") or {}).get("rollingUpdate") or {}
    if _recreates(deployment):
        return 0, wanted
    surge = _share(rolling.get("maxSurge", "25%"), wanted, math.ceil)
    fewer = min(_share(rolling.get("maxUnavailable", "25%"), wanted, math.floor), wanted)
    return surge, fewer if surge or fewer else min(1, wanted)


def _share(value: int | str, wanted: int, rounded: Any) -> int:
    if isinstance(value, str) and value.endswith("%"):
        return int(rounded(wanted * float(value[:-1]) / 100))
    return int(value)


def _recreates(deployment: Obj) -> bool:
    return bool((deployment["spec"].get("strategy") or {}).get("type") == "Recreate")


def _first_replicas(deployment: Obj, old: list[Obj]) -> int:
    wanted = int(deployment["spec"].get("replicas", 1))
    existing = sum(_wanted(one) for one in old)
    if _recreates(deployment):
        return 0 if any(_wanted(one) or _count(one, "replicas") for one in old) else wanted
    return min(wanted, max(wanted + bounds(deployment)[0] - existing, 0))


def _scaling(deployment: Obj, current: Obj, old: list[Obj]) -> list[tuple[Obj, int]]:
    """Which ReplicaSets to scale now."""
    wanted = int(deployment["spec"].get("replicas", 1))
    if _recreates(deployment):
        if any(_wanted(one) for one in old):
            return [(one, 0) for one in old if _wanted(one)]
        if any(_count(one, "replicas") for one in old):
            return []  # their Pods must be deleted first
        return [(current, wanted)] if _wanted(current) != wanted else []
    surge, fewer = bounds(deployment)
    total = _wanted(current) + sum(_wanted(one) for one in old)
    if _wanted(current) > wanted:
        return [(current, wanted)]
    if _wanted(current) < wanted and total < wanted + surge:
        return [(current, min(wanted, _wanted(current) + wanted + surge - total))]
    return _shrinking(current, old, wanted - fewer, total)


def _shrinking(current: Obj, old: list[Obj], least_available: int, total: int) -> list[tuple[Obj, int]]:
    not_available = _wanted(current) - _count(current, "availableReplicas")
    surplus = total - least_available - not_available
    if surplus <= 0:
        return []
    sizes = {id(one): _wanted(one) for one in old}
    for one in old:  # Pods that are not available first
        unhealthy = min(max(sizes[id(one)] - _count(one, "availableReplicas"), 0), surplus)
        sizes[id(one)] -= unhealthy
        surplus -= unhealthy
    available = _count(current, "availableReplicas") + sum(
        min(sizes[id(o)], _count(o, "availableReplicas")) for o in old
    )
    surplus = min(surplus, max(available - least_available, 0))
    for one in old:
        removed = min(sizes[id(one)], surplus)
        sizes[id(one)] -= removed
        surplus -= removed
    return [(one, sizes[id(one)]) for one in old if sizes[id(one)] != _wanted(one)]


def _forgotten(deployment: Obj, old: list[Obj]) -> list[Obj]:
    limit = deployment["spec"].get("revisionHistoryLimit", 10)
    idle = [one for one in old if not _wanted(one) and not _count(one, "replicas")]
    return sorted(idle, key=_revision)[: max(len(idle) - limit, 0)]


def _status(deployment: Obj, sets: list[Obj], current: Obj | None, now: datetime) -> dict[str, Any]:
    before, wanted = deployment.get("status") or {}, int(deployment["spec"].get("replicas", 1))
    total, available = sum(_count(one, "replicas") for one in sets), sum(_count(o, "availableReplicas") for o in sets)
    status = {
        "observedGeneration": deployment["metadata"].get("generation", 0),
        "replicas": total,
        "updatedReplicas": _count(current, "replicas") if current else 0,
        "readyReplicas": sum(_count(one, "readyReplicas") for one in sets),
        "availableReplicas": available,
        "unavailableReplicas": max(total - available, wanted - available, 0),
    }
    conditions: list[dict[str, Any]] = list(before.get("conditions") or ())
    for condition in (_available(deployment, available), _progressing(deployment, status, sets, current, now)):
        if condition is not None:
            conditions = _updated(conditions, condition, rfc3339(now))
    return {**status, "conditions": conditions}


def _updated(conditions: list[dict[str, Any]], new: Mapping[str, Any], now: str) -> list[dict[str, Any]]:
    """Conditions of Deployments also have a `lastUpdateTime`: when status, reason or message last changed."""
    old = find(conditions, new["type"]) or {}
    same = all(old.get(field) == new[field] for field in ("status", "reason", "message"))
    return with_condition(conditions, {**new, "lastUpdateTime": old.get("lastUpdateTime", now) if same else now}, now)


def _available(deployment: Obj, available: int) -> dict[str, str]:
    wanted = int(deployment["spec"].get("replicas", 1))
    if available >= wanted - bounds(deployment)[1]:
        message = "Deployment has minimum availability."
        return {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable", "message": message}
    message = "Deployment does not have minimum availability."
    return {"type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable", "message": message}


def _progressing(
    deployment: Obj, status: Mapping[str, Any], sets: list[Obj], current: Obj | None, now: datetime
) -> dict[str, Any] | None:
    if current is None:
        return None
    name, held = current["metadata"]["name"], find((deployment.get("status") or {}).get("conditions"), "Progressing")
    if _complete(deployment, status):
        said = ("True", "NewReplicaSetAvailable", f'ReplicaSet "{name}" has successfully progressed.')
    elif all(one is not current for one in sets):
        said = ("True", "NewReplicaSetCreated", f'Created new replica set "{name}"')
    elif held is None or _moved(deployment.get("status") or {}, status) or held["reason"] == "NewReplicaSetAvailable":
        said = ("True", "ReplicaSetUpdated", f'ReplicaSet "{name}" is progressing.')
    elif _late(deployment, held, now):
        said = ("False", "ProgressDeadlineExceeded", f'ReplicaSet "{name}" has timed out progressing.')
    else:
        return dict(held)
    return {"type": "Progressing", **dict(zip(("status", "reason", "message"), said, strict=True))}


def _complete(deployment: Obj, status: Mapping[str, Any]) -> bool:
    wanted = int(deployment["spec"].get("replicas", 1))
    return all(status[field] == wanted for field in ("replicas", "updatedReplicas", "availableReplicas"))


def _moved(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    def old_ones(status: Mapping[str, Any]) -> int:
        return int(status.get("replicas") or 0) - int(status.get("updatedReplicas") or 0)

    grown = any(
        int(after[f]) > int(before.get(f) or 0) for f in ("updatedReplicas", "readyReplicas", "availableReplicas")
    )
    return grown or old_ones(after) < old_ones(before)


def _late(deployment: Obj, held: Mapping[str, Any], now: datetime) -> bool:
    limit = float(deployment["spec"].get("progressDeadlineSeconds", 600))
    renewed = held.get("lastUpdateTime") or held.get("lastTransitionTime")
    if held.get("reason") == "NewReplicaSetAvailable" or not renewed:
        return False
    return (now - parse_rfc3339(renewed)).total_seconds() >= limit


def _deadline(deployment: Obj, sets: list[Obj], current: Obj, now: datetime) -> float | None:
    """Seconds until a rollout without progress has failed."""
    held = find((deployment.get("status") or {}).get("conditions"), "Progressing")
    if held is None or held.get("status") != "True" or held.get("reason") == "NewReplicaSetAvailable":
        return None
    renewed = parse_rfc3339(held.get("lastUpdateTime") or held["lastTransitionTime"])
    limit = float(deployment["spec"].get("progressDeadlineSeconds", 600))
    return max(limit - (now - renewed).total_seconds(), 1.0)


def _wanted(replicaset: Obj) -> int:
    return int(replicaset["spec"].get("replicas", 1))


def _count(replicaset: Obj, field: str) -> int:
    return int((replicaset.get("status") or {}).get(field) or 0)


def _revision(replicaset: Obj) -> int:
    text = str((replicaset["metadata"].get("annotations") or {}).get(REVISION) or "0")
    return int(text) if text.isdigit() else 0


def _with_revision(replicaset: Obj, revision: int) -> Obj:
    metadata = replicaset["metadata"]
    annotations = {**(metadata.get("annotations") or {}), REVISION: str(revision)}
    return {**replicaset, "metadata": {**metadata, "annotations": annotations}}


@dataclass(frozen=True)
class ReplicaSetDecision:
    """What to do about a ReplicaSet."""

    status: dict[str, Any]
    create: int = 0
    delete: tuple[Obj, ...] = ()
    again: float | None = None
    """Seconds after which to reconcile it again although nothing changes: a Pod becomes available then."""


def decide_replicaset(replicaset: Obj, pods: Iterable[Obj], now: datetime) -> ReplicaSetDecision:
    """What to do about the ReplicaSet now."""
    spec = replicaset["spec"]
    active = [pod for pod in pods if is_active(pod)]
    wanted = int(spec.get("replicas", 1))
    since = [moment for pod in active if (moment := ready_since(pod)) is not None]
    min_ready = timedelta(seconds=spec.get("minReadySeconds") or 0)
    soon = [(moment + min_ready - now).total_seconds() for moment in since if moment + min_ready > now]
    status = {
        "replicas": len(active),
        "fullyLabeledReplicas": len(active),
        "readyReplicas": len(since),
        "availableReplicas": len(since) - len(soon),
        "observedGeneration": replicaset["metadata"].get("generation", 0),
    }
    again = min(soon, default=None)
    if len(active) > wanted:
        chosen = sorted(active, key=_deletion_order)[: len(active) - wanted]
        return ReplicaSetDecision(status, delete=tuple(chosen), again=again)
    return ReplicaSetDecision(status, create=wanted - len(active), again=again)


def _deletion_order(pod: Obj) -> tuple[bool, float]:
    """Pods that are not ready are deleted first, then those that became ready last."""
    since = ready_since(pod)
    return since is not None, -since.timestamp() if since else 0.0
