"""Objects that belong to another by their controller reference, and Pods made from a template. Pure."""

from __future__ import annotations

import copy
import secrets
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from penstock.kube.kinds import Key, Kind, Obj
from penstock.resources.conditions import READY, find
from penstock.runtime.times import parse_rfc3339

SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""Letters of random names: no vowels, so that no words come out."""
LONGEST_PREFIX = 57


def controller_of(obj: Obj) -> Mapping[str, Any] | None:
    """The reference to the one that manages the object."""
    owners = obj["metadata"].get("ownerReferences") or ()
    return next((dict(owner) for owner in owners if owner.get("controller")), None)


def owner_of(obj: Obj, kinds: Iterable[Kind]) -> tuple[Kind, Key] | None:
    """Which object of these kinds manages this one."""
    owner = controller_of(obj)
    if owner is None:
        return None
    for kind in kinds:
        if owner["kind"] == kind.kind and str(owner["apiVersion"]).rpartition("/")[0] == kind.group:
            return kind, Key(obj["metadata"].get("namespace") or "", owner["name"])
    return None


def reference_to(kind: Kind, obj: Obj) -> Obj:
    """The owner reference of what the object manages."""
    metadata = obj["metadata"]
    named = {"apiVersion": kind.api_version, "kind": kind.kind, "name": metadata["name"], "uid": metadata["uid"]}
    return {**named, "controller": True, "blockOwnerDeletion": True}


def owned_by(owner: Obj, objects: Iterable[Obj]) -> list[Obj]:
    """Those that the object manages, oldest first."""
    uid = owner["metadata"]["uid"]
    found = [obj for obj in objects if (controller_of(obj) or {}).get("uid") == uid]
    return sorted(found, key=lambda obj: (obj["metadata"].get("creationTimestamp") or "", obj["metadata"]["name"]))


def random_name(prefix: str) -> str:
    """A name that nobody has."""
    return f"{prefix[:LONGEST_PREFIX]}-{''.join(secrets.choice(SUFFIX_LETTERS) for _ in range(5))}"


def pod_of(template: Mapping[str, Any], owner: Obj, kind: Kind) -> Obj:
    """A Pod made from the template."""
    metadata = template.get("metadata") or {}
    described = {field: copy.deepcopy(metadata[field]) for field in ("labels", "annotations") if metadata.get(field)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": random_name(owner["metadata"]["name"]),
            "namespace": owner["metadata"]["namespace"],
            "ownerReferences": [reference_to(kind, owner)],
            **described,
        },
        "spec": copy.deepcopy(template.get("spec") or {}),
    }


def phase_of(pod: Obj) -> str:
    """The Pod's phase."""
    return str((pod.get("status") or {}).get("phase") or "Pending")


def is_terminating(obj: Obj) -> bool:
    """Whether the object is being deleted."""
    return bool(obj["metadata"].get("deletionTimestamp"))


def is_active(pod: Obj) -> bool:
    """Whether the Pod runs or will."""
    return phase_of(pod) not in ("Succeeded", "Failed") and not is_terminating(pod)


def ready_since(pod: Obj) -> datetime | None:
    """Since when the Pod is ready; None where it is not."""
    condition = find((pod.get("status") or {}).get("conditions"), READY)
    if condition is None or condition.get("status") != "True" or is_terminating(pod):
        return None
    return parse_rfc3339(condition["lastTransitionTime"])


def with_condition(conditions: Iterable[Mapping[str, Any]], new: Mapping[str, Any], now: str) -> list[dict[str, Any]]:
    """The conditions with this one in place of that of its type; the time of its last transition stays where its
    status did."""
    kept = [dict(one) for one in conditions]
    before = next((one for one in kept if one["type"] == new["type"]), None)
    changed = before is None or before["status"] != new["status"]
    moment = now if changed or before is None else before.get("lastTransitionTime", now)
    entry = {**new, "lastTransitionTime": moment}
    if before is None:
        return [*kept, entry]
    return [entry if one["type"] == new["type"] else one for one in kept]
