"""Objects that belong to another by their controller reference, and Pods made from a template. Pure."""

from __future__ import annotations

import copy
import secrets
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from penstock.kube.kinds import Key, Kind, Obj
from penstock.resources.conditions import READY, find
from penstock.resources.metadata import controller_of, controller_reference
from penstock.runtime.times import parse_rfc3339

SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""Letters of random names: without vowels, so that they form no words."""
LONGEST_PREFIX = 57


def controller_key(obj: Obj, kind: Kind) -> Key | None:
    """The key of the object's controller; None where that is not of this kind."""
    owner = controller_of(obj)
    if owner is None or (owner["kind"], str(owner["apiVersion"]).rpartition("/")[0]) != (kind.kind, kind.group):
        return None
    return Key(obj["metadata"].get("namespace") or "", owner["name"])


def reference_to(kind: Kind, obj: Obj) -> Obj:
    """The owner reference to a stored object, whose `apiVersion` may be another one."""
    return controller_reference({**obj, "apiVersion": kind.api_version, "kind": kind.kind})


def owned_by(owner: Obj, objects: Iterable[Obj]) -> list[Obj]:
    """The objects whose controller is the owner, oldest first."""
    uid = owner["metadata"]["uid"]
    found = [obj for obj in objects if (controller_of(obj) or {}).get("uid") == uid]
    return sorted(found, key=lambda obj: (obj["metadata"].get("creationTimestamp") or "", obj["metadata"]["name"]))


def random_name(prefix: str) -> str:
    """A random name with this prefix."""
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
    """Whether the Pod runs or is going to run."""
    return phase_of(pod) not in ("Succeeded", "Failed") and not is_terminating(pod)


def ready_since(pod: Obj) -> datetime | None:
    """Since when the Pod is ready; None where it is not."""
    condition = find((pod.get("status") or {}).get("conditions"), READY)
    if condition is None or condition.get("status") != "True" or is_terminating(pod):
        return None
    return parse_rfc3339(condition["lastTransitionTime"])


def with_condition(conditions: Iterable[Mapping[str, Any]], new: Mapping[str, Any], now: str) -> list[dict[str, Any]]:
    """The conditions with this one in place of the former one of its type; `lastTransitionTime` changes only with its
    status."""
    kept = [dict(one) for one in conditions]
    before = next((one for one in kept if one["type"] == new["type"]), None)
    changed = before is None or before["status"] != new["status"]
    moment = now if changed or before is None else before.get("lastTransitionTime", now)
    entry = {**new, "lastTransitionTime": moment}
    if before is None:
        return [*kept, entry]
    return [entry if one["type"] == new["type"] else one for one in kept]
