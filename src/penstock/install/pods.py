"""The Pods of the roles: one image, one way to be configured, probed and stopped, and no rights on their machine."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from penstock.engine.roles.table import role_of
from penstock.install.objects import metadata, role_labels, selector
from penstock.install.tls import CERTIFICATE_FOLDER
from penstock.install.values import Values
from penstock.kube.kinds import Obj

SETTINGS = "penstock-settings"
USER = 65532
PRE_STOP_SECONDS = 5
"""A Pod that ends is still sent requests for a moment, until every node knows."""
STOP_SECONDS = 60
"""Longer than the drain time and the moment before it together."""
SLOW_START_SECONDS = 300
POD_SECURITY: Obj = {
    "runAsNonRoot": True,
    "runAsUser": USER,
    "runAsGroup": USER,
    "fsGroup": USER,
    "seccompProfile": {"type": "RuntimeDefault"},
}
CONTAINER_SECURITY: Obj = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


@dataclass(frozen=True)
class PodKind:
    """What distinguishes the Pods of a role."""

    role: str
    account: str
    ports: dict[str, int] = field(default_factory=dict)
    uses_api: bool = True
    """Whether it works with the API."""
    verifies_tokens: bool = False
    """Whether it asks the API for the keys of tokens, where OIDC is enabled, and for nothing else."""
    environment: tuple[Obj, ...] = ()
    choices: tuple[str, ...] = ()
    """What decides whether the role is there."""
    files: tuple[tuple[str, str], ...] = ()
    """ConfigMaps, and where their entries are mounted as files."""

    @property
    def health_port(self) -> int:
        """Where it answers probes."""
        return role_of(self.role).health_port


def deployment(kind: PodKind, values: Values, replicas: Any) -> Obj:
    """The Deployment of a role; without `replicas` an autoscaler sets their number."""
    spec: Obj = {
        "selector": {"matchLabels": selector(kind.role)},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
        "template": {"metadata": {"labels": role_labels(kind.role)}, "spec": _pod(kind, values)},
    }
    if replicas is not None:
        spec = {"replicas": replicas, **spec}
    details = metadata(f"penstock-{kind.role}", labels=role_labels(kind.role))
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": details, "spec": spec}


def _pod(kind: PodKind, values: Values) -> Obj:
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": selector(kind.role)},
    }
    return {
        "serviceAccountName": kind.account,
        "automountServiceAccountToken": kind.uses_api or kind.verifies_tokens,
        # Kubernetes would set PENSTOCK_WEBHOOK_PORT and the like, which would be taken for settings.
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": STOP_SECONDS,
        "topologySpreadConstraints": [spread],
        "securityContext": POD_SECURITY,
        "containers": [_container(kind, values)],
        "volumes": [
            {"name": "data", "emptyDir": {}},
            {"name": "tmp", "emptyDir": {}},
            {"name": "tls", "secret": {"secretName": values.files_from, "optional": True}},
            # A Pod that is to speak TLS waits for its certificate, which cert-manager may still be asking for.
            {"name": "certificate", "secret": {"secretName": values.tls.secret, "optional": values.tls.is_off}},
            *({"name": name, "configMap": {"name": name}} for name, _ in kind.files),
        ],
    }


def _container(kind: PodKind, values: Values) -> Obj:
    resources = getattr(values, kind.role).resources
    ports = {**kind.ports, "metrics": kind.health_port}
    environment = [*kind.environment]
    container: Obj = {
        "name": kind.role,
        "image": values.image,
        "imagePullPolicy": values.image_pull_policy,
        "args": [kind.role],
        "envFrom": [
            {"configMapRef": {"name": SETTINGS}},
            {"secretRef": {"name": values.environment_from, "optional": True}},
        ],
        "ports": [{"name": name, "containerPort": port} for name, port in ports.items()],
        "startupProbe": _probe("/livez", values, periodSeconds=5, failureThreshold=SLOW_START_SECONDS // 5),
        "livenessProbe": _probe("/livez", values, periodSeconds=10, timeoutSeconds=5, failureThreshold=6),
        "readinessProbe": _probe("/readyz", values, periodSeconds=5, timeoutSeconds=5, failureThreshold=2),
        "lifecycle": {"preStop": {"sleep": {"seconds": PRE_STOP_SECONDS}}},
        "resources": resources,
        "securityContext": {**CONTAINER_SECURITY, "readOnlyRootFilesystem": True},
        "volumeMounts": [
            {"name": "data", "mountPath": "/var/lib/penstock"},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 — of the container
            {"name": "tls", "mountPath": "/etc/penstock/tls", "readOnly": True},
            {"name": "certificate", "mountPath": CERTIFICATE_FOLDER, "readOnly": True},
            *({"name": name, "mountPath": path, "readOnly": True} for name, path in kind.files),
        ],
    }
    return {**container, "env": environment} if environment else container


def _probe(path: str, values: Values, **more: int) -> Obj:
    return {"httpGet": {"path": path, "port": "metrics", "scheme": values.tls.probe_scheme}, **more}
