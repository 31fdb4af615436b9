"""For each role a Deployment, its Services, its PodDisruptionBudget and its NetworkPolicy."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import yaml

from penstock.install import access
from penstock.install.objects import Manifest, metadata, role_labels, selector
from penstock.install.pods import CONTAINER_SECURITY, POD_SECURITY, SETTINGS, PodKind, deployment
from penstock.install.tls import INGRESS_SERVICE, certificate
from penstock.install.values import Values, completed
from penstock.kube.kinds import Obj
from penstock.resources.admission import SYSTEM_NAMESPACE
from penstock.settings import Settings
from penstock.webhook import certificates

SPARK_PORTS = {"driver": 7078, "blocks": 7079}
"""The ports of the driver for its executors."""

_DEFAULTS = Settings()
EXECUTOR_TEMPLATE = "penstock-executor"

KINDS = (
    PodKind(
        "ingress",
        access.INGRESS,
        {"http": _DEFAULTS.port, "https": _DEFAULTS.tls_port},
        uses_api=False,
        verifies_tokens=True,
    ),
    PodKind("control", access.CONTROL),
    PodKind("webhook", access.WEBHOOK, {"https": _DEFAULTS.webhook_port}),
    PodKind("pipeline", access.PIPELINE),
    PodKind("console", access.CONSOLE, {"console": _DEFAULTS.console_port}, choices=("console.enabled",)),
    PodKind("history", access.HISTORY, uses_api=False, choices=("history.enabled",)),
)
DRIVERS = ("pipeline", "history")
"""Roles that run a Spark driver."""


def workloads(values: Values) -> list[Manifest]:
    """All workloads, and the objects that belong to them."""
    made = [_settings(values), certificate(values.tls), Manifest(_executor_template(), ("spark_executors",))]
    for kind in _kinds(values):
        scaled = kind.role == "ingress"
        replicas = None if scaled else getattr(values, kind.role).replicas
        made += [
            Manifest(deployment(kind, values, replicas), kind.choices),
            *_services(kind, values),
            _disruption(kind),
            _network(kind),
        ]
    return [*made, _autoscaler(values), *_monitors(values)]


def _kinds(values: Values) -> list[PodKind]:
    """The roles. Drivers create their executors and serve ports for them, where these are Pods."""
    if not values.spark_executors:
        return list(KINDS)
    return [_driver(kind, values) if kind.role in DRIVERS else kind for kind in KINDS]


def _driver(kind: PodKind, values: Values) -> PodKind:
    return replace(
        kind,
        ports=SPARK_PORTS,
        uses_api=True,
        environment=tuple(_driver_environment(values)),
        files=((EXECUTOR_TEMPLATE, "/etc/penstock/executor"),),
    )


def _driver_environment(values: Values) -> list[Obj]:
    """What the driver needs to know about its own Pod, so that executors connect to it and are deleted with it."""
    conf = {
        "spark.kubernetes.namespace": SYSTEM_NAMESPACE,
        "spark.kubernetes.driver.pod.name": "$(POD_NAME)",
        "spark.kubernetes.container.image": "$(POD_IMAGE)",
        "spark.kubernetes.executor.podTemplateFile": "/etc/penstock/executor/pod.yaml",
        "spark.driver.port": SPARK_PORTS["driver"],
        "spark.driver.blockManager.port": SPARK_PORTS["blocks"],
    }
    return [
        {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "POD_IMAGE", "value": values.image},
        {"name": "PENSTOCK_SPARK_DRIVER_HOST", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "PENSTOCK_SPARK_PYTHON", "value": "/opt/penstock/python/bin/python"},
        {"name": "PENSTOCK_SPARK_CONF", "value": json.dumps(conf)},
    ]


def _executor_template() -> Obj:
    """The template of Spark's executor Pods, with the same restrictions as all others."""
    spec = {
        "enableServiceLinks": False,
        "automountServiceAccountToken": False,
        "securityContext": POD_SECURITY,
        "containers": [{"name": "executor", "securityContext": CONTAINER_SECURITY}],
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": spec}
    data = {"pod.yaml": yaml.safe_dump(pod, sort_keys=False)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(EXECUTOR_TEMPLATE), "data": data}


def environment(settings: dict[str, Any]) -> dict[str, str]:
    """Settings as environment variables. Raises pydantic's ValidationError if one is invalid."""
    Settings(**settings)
    return {f"PENSTOCK_{name.upper()}": _variable(value) for name, value in settings.items()}


def _variable(value: Any) -> str:
    """An empty variable means the same as an empty setting."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def _settings(values: Values) -> Manifest:
    data = environment(completed(values)) if isinstance(values.settings, dict) else values.settings
    return Manifest({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(SETTINGS), "data": data})


def _services(kind: PodKind, values: Values) -> list[Manifest]:
    """The Services of a role: one with an address for all Pods where clients use it, and a headless one for Prometheus
    and the console, which read the metrics of every single Pod."""
    metrics = {"name": "metrics", "port": kind.health_port, "targetPort": "metrics"}
    name, each = f"penstock-{kind.role}", {"clusterIP": "None"}
    match kind.role:
        case "ingress":
            ports = [{"name": "http", "port": 80, "targetPort": "http"}]
            ports += [{"name": "https", "port": 443, "targetPort": "https"}]
            return [_service(kind, INGRESS_SERVICE, ports), _service(kind, name, [metrics], **each)]
        case "webhook":
            https = {"name": "https", "port": 443, "targetPort": "https"}
            return [_service(kind, certificates.SERVICE, [https, metrics])]
        case "console":
            port = kind.ports["console"]
            console = {"name": "console", "port": port, "targetPort": "console", "appProtocol": values.tls.scheme}
            # Sessions are in the memory of one Pod.
            return [_service(kind, name, [console, metrics], sessionAffinity="ClientIP")]
        case _:
            return [_service(kind, name, [metrics], **each)]


def _service(kind: PodKind, name: str, ports: list[Obj], **more: str) -> Manifest:
    spec: Obj = {"selector": selector(kind.role), "ports": ports, **more}
    details = metadata(name, labels=role_labels(kind.role))
    return Manifest({"apiVersion": "v1", "kind": "Service", "metadata": details, "spec": spec}, kind.choices)


def _disruption(kind: PodKind) -> Manifest:
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": selector(kind.role)}}
    details = metadata(f"penstock-{kind.role}")
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": details, "spec": spec}
    return Manifest(budget, kind.choices)


def _network(kind: PodKind) -> Manifest:
    """NetworkPolicies: all clients may connect to served ports, executors to their driver; all else is denied."""
    served = [port for name, port in kind.ports.items() if name not in SPARK_PORTS]
    rules: list[Obj] = [{"ports": [{"protocol": "TCP", "port": port} for port in (*served, kind.health_port)]}]
    if kind.ports == SPARK_PORTS:
        executors = {"podSelector": {"matchLabels": {"spark-role": "executor"}}}
        ports = [{"protocol": "TCP", "port": port} for port in SPARK_PORTS.values()]
        rules.append({"from": [executors], "ports": ports})
    spec = {"podSelector": {"matchLabels": selector(kind.role)}, "policyTypes": ["Ingress"], "ingress": rules}
    details = metadata(f"penstock-{kind.role}")
    policy = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": details, "spec": spec}
    return Manifest(policy, (*kind.choices, "network_policies"))


def _autoscaler(values: Values) -> Manifest:
    target = {"type": "Utilization", "averageUtilization": values.ingress_target_cpu}
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "penstock-ingress"},
        "minReplicas": values.ingress.replicas,
        "maxReplicas": values.ingress_max_replicas,
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
    }
    details = metadata("penstock-ingress")
    scaler = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": details, "spec": spec}
    return Manifest(scaler)


def _monitors(values: Values) -> list[Manifest]:
    """The ServiceMonitors for Prometheus, with TLS and without."""
    secure = {
        "scheme": "https",
        "tlsConfig": {"ca": values.tls.trust, "serverName": f"{INGRESS_SERVICE}.{SYSTEM_NAMESPACE}.svc"},
    }
    return [
        Manifest(_monitor({}), ("service_monitor", "tls.is_off")),
        Manifest(_monitor(secure), ("service_monitor", "tls.is_on")),
    ]


def _monitor(how: Obj) -> Obj:
    spec = {
        "selector": {"matchLabels": metadata("")["labels"]},
        "endpoints": [{"port": "metrics", "path": "/metrics", "interval": "30s", **how}],
    }
    details = metadata("penstock")
    return {"apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor", "metadata": details, "spec": spec}
