"""The registration of the webhook at the API server: for which objects, under which names, and its address."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from penstock.install.objects import NOT_SERVED, Manifest, kind_of, metadata
from penstock.kube.kinds import Obj
from penstock.resources import features
from penstock.resources.admission import SYSTEM_NAMESPACE, KindAdmission
from penstock.resources.registry import ADMISSION, crds
from penstock.webhook import certificates, service

GROUP = "admissionregistration.k8s.io"
DEFAULTING = "webhook.eventing.knative.dev"
"""The name of the webhook, as in Knative; messages of validation contain those of the kinds."""
SECONDS = 10


def registrations() -> list[Manifest]:
    """The configurations, and the Secret with the webhook's certificates."""
    by_webhook: dict[str, list[Obj]] = defaultdict(list)
    for definition in crds():
        kind = kind_of(definition)
        admission = ADMISSION.get(kind)
        if kind not in NOT_SERVED and isinstance(admission, KindAdmission):
            by_webhook[admission.webhook].append(_rule(definition))
    everything = [rule for rules in by_webhook.values() for rule in rules]
    validating = [_webhook(name, service.VALIDATION, rules) for name, rules in by_webhook.items()]
    return [
        Manifest(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": metadata(certificates.CERTIFICATES_SECRET),
                "type": "Opaque",
            }
        ),
        _configuration("Mutating", certificates.MUTATING, [_webhook(DEFAULTING, service.DEFAULTING, everything)]),
        _configuration("Validating", certificates.VALIDATING, [*validating, _features_webhook()]),
    ]


def _configuration(which: str, name: str, webhooks: list[Obj]) -> Manifest:
    kind = f"{which}WebhookConfiguration"
    details = metadata(name, namespaced=False)
    return Manifest({"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": details, "webhooks": webhooks})


def _rule(definition: Obj) -> Obj:
    """Objects are validated in the version in which they are sent, as by the embedded API."""
    spec = definition["spec"]
    return {
        "apiGroups": [spec["group"]],
        "apiVersions": [one["name"] for one in spec["versions"] if one["served"]],
        "resources": [spec["names"]["plural"]],
        "operations": ["CREATE", "UPDATE"],
        "scope": "Namespaced",
    }


def _webhook(name: str, path: str, rules: list[Obj], **more: Any) -> Obj:
    return {
        "name": name,
        "clientConfig": {
            "service": {"name": certificates.SERVICE, "namespace": SYSTEM_NAMESPACE, "path": path, "port": 443}
        },
        "rules": rules,
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Fail",
        "matchPolicy": "Exact",
        "sideEffects": "None",
        "timeoutSeconds": SECONDS,
        **more,
    }


def _features_webhook() -> Obj:
    """Called for one ConfigMap only, so that writes of others do not depend on the webhook."""
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "resources": ["configmaps"],
        "operations": ["CREATE", "UPDATE"],
        "scope": "Namespaced",
    }
    namespaces = {"matchLabels": {"kubernetes.io/metadata.name": SYSTEM_NAMESPACE}}
    condition = {"name": "features", "expression": f"request.name == '{features.CONFIG_MAP}'"}
    return _webhook(
        features.WEBHOOK, service.CONFIG_VALIDATION, [rule], namespaceSelector=namespaces, matchConditions=[condition]
    )
