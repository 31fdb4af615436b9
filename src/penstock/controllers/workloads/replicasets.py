"""What a ReplicaSet asks for: as many Pods as it says, and a status that counts them. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from penstock.controllers.workloads.owned import is_active, ready_since
from penstock.kube.kinds import Obj


@dataclass(frozen=True)
class ReplicaSetDecision:
    """What follows from how a ReplicaSet stands."""

    status: dict[str, Any]
    create: int = 0
    delete: tuple[Obj, ...] = ()
    again: float | None = None
    """Seconds after which to look again although nothing changes: a Pod becomes available then."""


def decide(replicaset: Obj, pods: Iterable[Obj], now: datetime) -> ReplicaSetDecision:
    """What to do about the ReplicaSet now."""
    spec = replicaset["spec"]
    active = [pod for pod in pods if is_active(pod)]
    wanted = int(spec.get("replicas", 1))
    since = [moment for pod in active if (moment := ready_since(pod)) is not None]
    quarantine = timedelta(seconds=spec.get("minReadySeconds") or 0)
    soon = [(moment + quarantine - now).total_seconds() for moment in since if moment + quarantine > now]
    status = {
        "replicas": len(active),
        "fullyLabeledReplicas": len(active),
        "readyReplicas": len(since),
        "availableReplicas": len(since) - len(soon),
        "observedGeneration": replicaset["metadata"].get("generation", 0),
    }
    again = min(soon, default=None)
    if len(active) > wanted:
        chosen = sorted(active, key=_dearness)[: len(active) - wanted]
        return ReplicaSetDecision(status, delete=tuple(chosen), again=again)
    return ReplicaSetDecision(status, create=wanted - len(active), again=again)


def _dearness(pod: Obj) -> tuple[bool, float]:
    """Pods that are not ready go first, and among the others the youngest."""
    since = ready_since(pod)
    return since is not None, -since.timestamp() if since else 0.0
