"""ContainerSource: a program of the user that sends events."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.kube.kinds import Obj
from penstock.resources.admission import AdmissionContext
from penstock.resources.conditions import READY, ConditionFinding, conclude, false, find, unknown
from penstock.resources.destinations import fill_destination
from penstock.resources.field_errors import FieldErrors, missing, within
from penstock.resources.metadata import ObjectIdentity, controller_reference
from penstock.resources.pod_rules import template_errors
from penstock.resources.sinkbinding import unbound
from penstock.resources.sources import check_source

# Model.


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
    """The SinkBinding that sets K_SINK in the Deployment's containers."""
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


# Defaults.


def fill(obj: Obj, ctx: AdmissionContext) -> None:
    """Fills in what was left out."""
    name = (obj.get("metadata") or {}).get("name") or ""
    pod = (obj["spec"].get("template") or {}).get("spec") or {}
    for number, container in enumerate(pod.get("containers") or []):
        if isinstance(container, dict) and not container.get("name"):
            container["name"] = f"{name}-{number}"


# Validation.


def check(obj: Obj, old: Obj | None, ctx: AdmissionContext) -> FieldErrors:
    """Every complaint about the ContainerSource."""
    spec = obj.get("spec") or {}
    containers = ((spec.get("template") or {}).get("spec") or {}).get("containers") or []
    errors: FieldErrors = [] if containers else [missing("containers")]
    for number, container in enumerate(containers):
        found = [missing(name) for name in ("name", "image") if not container.get(name)]
        errors += within(f"containers[{number}]", found)
    errors += check_source(spec)
    return within("spec", errors or template_errors(spec, old))


# Status.


SINK_BINDING_READY = "SinkBindingReady"
RECEIVE_ADAPTER_READY = "ReceiveAdapterReady"
_FROM_BINDING = ("sinkUri", "sinkCACerts", "sinkAudience", "auth")


@dataclass(frozen=True)
class ContainerObservation:
    """What the controller has found out."""

    deployment_name: str
    binding: Mapping[str, Any]
    """The SinkBinding as stored."""
    deployment: Mapping[str, Any] | None
    """The Deployment as stored; None: there is none yet."""
    failure: str | None = None
    """Why a part cannot be had."""


def status_of(obj: Obj, seen: ContainerObservation, now: str) -> dict[str, Any]:
    """The ContainerSource's status."""
    previous = (obj.get("status") or {}).get("conditions") or []
    binding = seen.binding.get("status") or {}
    findings = [_copied(SINK_BINDING_READY, find(binding.get("conditions"), READY)), _adapter(seen)]
    return {
        "observedGeneration": ObjectIdentity.read(obj).generation,
        "conditions": conclude(previous, findings, now),
        **{name: binding[name] for name in _FROM_BINDING if name in binding},
    }


def _adapter(seen: ContainerObservation) -> ConditionFinding:
    if seen.failure is not None:
        return false(RECEIVE_ADAPTER_READY, "DeploymentFailed", seen.failure)
    conditions = ((seen.deployment or {}).get("status") or {}).get("conditions")
    available = find(conditions, "Available")
    if available is None:
        message = f"The Deployment '{seen.deployment_name}' is unavailable."
        return unknown(RECEIVE_ADAPTER_READY, "DeploymentUnavailable", message)
    return _copied(RECEIVE_ADAPTER_READY, available)


def _copied(kind: str, condition: Mapping[str, Any] | None) -> ConditionFinding:
    if condition is None:
        return unknown(kind)
    if condition["status"] == "True":
        return ConditionFinding(kind, "True")
    state = false if condition["status"] == "False" else unknown
    return state(kind, condition.get("reason") or "", condition.get("message") or "")
