"""The namespace, the kinds and the ConfigMaps."""

from __future__ import annotations

from penstock.install.objects import LABELS, Manifest
from penstock.kube.kinds import Obj
from penstock.resources.admission import SYSTEM_NAMESPACE
from penstock.resources.registry import CONVERSIONS, bootstrap_configmaps, crds
from penstock.settings import Settings
from penstock.webhook.app import CONVERSION
from penstock.webhook.trust import SERVICE

NOT_SERVED = frozenset(
    {("serving.knative.dev", "Service"), ("sinks.knative.dev", "JobSink")}
    | {("sinks.knative.dev", "IntegrationSink"), ("sources.knative.dev", "IntegrationSource")}
    | {("eventing.knative.dev", "EventTransform"), ("eventing.knative.dev", "RequestReply")}
)
"""Kinds that only the embedded control plane brings to life. In a cluster their objects would lie there forever."""


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
    """Where defaults and features are kept."""
    made = bootstrap_configmaps(Settings())
    for one in made:
        one["metadata"]["labels"] = {**one["metadata"]["labels"], **LABELS}
    return [Manifest(one, once=True) for one in made]
