"""What the objects of an installation share (names, labels, order), and the namespace, the kinds and the ConfigMaps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.kube.kinds import Obj
from penstock.resources.admission import SYSTEM_NAMESPACE
from penstock.resources.registry import CONVERSIONS, bootstrap_configmaps, crds
from penstock.settings import Settings
from penstock.webhook.certificates import SERVICE
from penstock.webhook.service import CONVERSION

PART_OF = "app.kubernetes.io/part-of"
LABELS = {PART_OF: "penstock"}


@dataclass(frozen=True)
class Manifest:
    """One object, and the values that it depends on."""

    obj: Obj
    choices: tuple[str, ...] = ()
    """Attributes of `Values` that must all be true (`console.enabled`); empty: it is always included."""
    once: bool = False
    """Whether the object belongs to the user once it exists."""


def metadata(name: str, *, namespaced: bool = True, labels: dict[str, str] | None = None, **more: Any) -> Obj:
    """The metadata of an object of the installation."""
    namespace = {"namespace": SYSTEM_NAMESPACE} if namespaced else {}
    return {"name": name, **namespace, "labels": {**LABELS, **(labels or {})}, **more}


def role_labels(role: str) -> dict[str, str]:
    """The labels of a role's Pods."""
    return {"app.kubernetes.io/name": f"penstock-{role}", **LABELS}


def selector(role: str) -> dict[str, str]:
    """The labels of them that select the Pods."""
    return {"app.kubernetes.io/name": f"penstock-{role}"}


NOT_SERVED = frozenset(
    {("serving.knative.dev", "Service"), ("sinks.knative.dev", "JobSink")}
    | {("sinks.knative.dev", "IntegrationSink"), ("sources.knative.dev", "IntegrationSource")}
    | {("eventing.knative.dev", "EventTransform"), ("eventing.knative.dev", "RequestReply")}
)
"""Kinds that only the embedded control plane has controllers for."""


def kind_of(definition: Obj) -> tuple[str, str]:
    """Group and kind that a CustomResourceDefinition defines."""
    return definition["spec"]["group"], definition["spec"]["names"]["kind"]


def namespace() -> list[Manifest]:
    """The namespace; nothing in it needs more than Kubernetes' strictest profile allows."""
    labels = {**LABELS, "pod-security.kubernetes.io/enforce": "restricted"}
    return [
        Manifest({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM_NAMESPACE, "labels": labels}})
    ]


def definitions() -> list[Manifest]:
    """The kinds that are served in a cluster."""
    served = [one for one in crds() if kind_of(one) not in NOT_SERVED]
    for one in served:
        one["metadata"]["labels"] = {**(one["metadata"].get("labels") or {}), **LABELS}
        if kind_of(one) in CONVERSIONS:
            client = {"service": {"name": SERVICE, "namespace": SYSTEM_NAMESPACE, "path": CONVERSION}}
            webhook = {"conversionReviewVersions": ["v1"], "clientConfig": client}
            one["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    return [Manifest(one) for one in served]


def configmaps() -> list[Manifest]:
    """The ConfigMaps with defaults and features."""
    made = bootstrap_configmaps(Settings())
    for one in made:
        one["metadata"]["labels"] = {**one["metadata"]["labels"], **LABELS}
    return [Manifest(one, once=True) for one in made]
