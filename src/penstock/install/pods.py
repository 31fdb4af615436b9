"""The Pods of the roles: the same image, configuration, probes and shutdown for all, and no rights on their node."""

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
"""A terminating Pod still gets requests until every node has removed its address."""
STOP_SECONDS = 60
"""Longer than the drain time and the pause before it together."""
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
    """What differs between the Pods of the roles."""

    role: str
    account: str
    ports: dict[str, int] = field(default_factory=dict)
    uses_api: bool = True
    """Whether it uses the API."""
    verifies_tokens: bool = False
    """Whether it uses the API only for the keys of tokens, where OIDC is enabled."""
    environment: tuple[Obj, ...] = ()
    choices: tuple[str, ...] = ()
    """Attributes of `Values` that decide whether the role is included."""
    files: tuple[tuple[str, str], ...] = ()
    """ConfigMaps, and where their entries are mounted as files."""

    @property
    def health_port(self) -> int:
        """The port of its probes."""
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
        # Otherwise Kubernetes sets PENSTOCK_WEBHOOK_PORT and the like, which would be read as settings.
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": STOP_SECONDS,
        "topologySpreadConstraints": [spread],
        "securityContext": POD_SECURITY,
        "containers": [_container(kind, values)],
        "volumes": [
            {"name": "data", "emptyDir": {}},
            {"name": "tmp", "emptyDir": {}},
            {"name": "tls", "secret": {"secretName": values.files_from, "optional": True}},
            # A Pod that serves TLS waits for its certificate, which cert-manager may still be requesting.
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
