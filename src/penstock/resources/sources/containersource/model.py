"""A ContainerSource as the controllers see it, and what it is made of: a Deployment, and a SinkBinding that tells it
the sink."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping
from typing import Any

from penstock.resources.admission import Obj
from penstock.resources.destinations.destination import fill_destination
from penstock.resources.metadata import controller_reference
from penstock.resources.sources.sinkbinding.environment import unbound

DEPLOYMENT = ("apps/v1", "Deployment")
LONGEST_NAME = 63


def deployment_of(obj: Obj) -> Obj:
    """The Deployment that runs the containers."""
    metadata = obj["metadata"]
    template = copy.deepcopy((obj.get("spec") or {}).get("template") or {})
    details = template.get("metadata") or {}
    labels = {
        **(details.get("labels") or {}),
        "sources.knative.dev/source": "container-source-controller",
        "sources.knative.dev/containerSource": metadata["name"],
    }
    template["metadata"] = {**details, "labels": labels}
    made = _owned(obj, *DEPLOYMENT, "-deployment")
    made["metadata"] |= {"labels": labels, "annotations": details.get("annotations") or {}}
    made["spec"] = {"selector": {"matchLabels": labels}, "template": template}
    # The SinkBinding's variables are its own; a template that brings some would be changed back and forth.
    return unbound(made)


def sink_binding_of(obj: Obj) -> Obj:
    """The SinkBinding that tells the Deployment's containers the sink."""
    spec = obj.get("spec") or {}
    copied = {name: copy.deepcopy(spec[name]) for name in ("sink", "ceOverrides") if name in spec}
    fill_destination(copied.get("sink"), obj["metadata"]["namespace"])
    made = _owned(obj, "sources.knative.dev/v1", "SinkBinding", "-sinkbinding")
    made["spec"] = {
        **copied,
        "subject": {
            "apiVersion": DEPLOYMENT[0],
            "kind": DEPLOYMENT[1],
            "namespace": obj["metadata"]["namespace"],
            "name": child_name(obj["metadata"]["name"], "-deployment"),
        },
    }
    return made


def child_name(parent: str, suffix: str) -> str:
    """The name of a part; where it would be too long, as Knative shortens it."""
    if len(parent) <= LONGEST_NAME - len(suffix):
        return parent + suffix
    digest = hashlib.md5(parent.encode(), usedforsecurity=False).hexdigest()
    return parent[: max(0, LONGEST_NAME - len(digest) - len(suffix))] + digest + suffix


def is_within(wanted: Any, held: Any) -> bool:
    """Whether all that is wanted is there; more may be: defaults, and what a SinkBinding adds to the environment."""
    if isinstance(wanted, Mapping) and isinstance(held, Mapping):
        return all(is_within(value, held.get(name)) for name, value in wanted.items())
    if isinstance(wanted, list) and isinstance(held, list):
        return len(wanted) <= len(held) and all(is_within(a, b) for a, b in zip(wanted, held, strict=False))
    return wanted == held or not wanted


def _owned(obj: Obj, api_version: str, kind: str, suffix: str) -> Obj:
    metadata = obj["metadata"]
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": child_name(metadata["name"], suffix),
            "namespace": metadata["namespace"],
            "ownerReferences": [controller_reference(obj)],
        },
    }
