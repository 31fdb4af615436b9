"""What runs: a Deployment for each role, its Service, how many of it may be missing and who may speak with it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import yaml

from penstock.install import access
from penstock.install.objects import Manifest, Obj, metadata, role_labels, selector
from penstock.install.pods import CONTAINER_SECURITY, POD_SECURITY, SETTINGS, PodKind, deployment
from penstock.install.values import Values
from penstock.resources.admission import SYSTEM_NAMESPACE
from penstock.settings import Settings
from penstock.webhook import trust

INGRESS_SERVICE = "broker-ingress"
SPARK_PORTS = {"driver": 7078, "blocks": 7079}
"""Where executors reach the driver."""

_DEFAULTS = Settings()
EXECUTOR_TEMPLATE = "penstock-executor"

KINDS = (
    PodKind("ingress", access.INGRESS, {"http": _DEFAULTS.port}, uses_api=False, verifies_tokens=True),
    PodKind("control", access.CONTROL),
    PodKind("webhook", access.WEBHOOK, {"https": _DEFAULTS.webhook_port}),
    PodKind("pipeline", access.PIPELINE),
)
SERVICES = {
    "ingress": (INGRESS_SERVICE, [{"name": "http", "port": 80, "targetPort": "http"}]),
    "control": ("penstock-control", []),
    "webhook": (trust.SERVICE, [{"name": "https", "port": 443, "targetPort": "https"}]),
    "pipeline": ("penstock-pipeline", []),
}


def workloads(values: Values) -> list[Manifest]:
    """Everything that runs, and what goes with it."""
    made = [_settings(values), Manifest(_executor_template(), choice="spark_executors")]
    for kind in _kinds(values):
        scaled = kind.role == "ingress"
        replicas = None if scaled else getattr(values, kind.role).replicas
        made += [Manifest(deployment(kind, values, replicas)), _service(kind), _disruption(kind), _network(kind)]
    return [*made, _autoscaler(values), _monitor()]


def _kinds(values: Values) -> list[PodKind]:
    """The roles; the pipeline is reached by its executors where these are Pods of their own."""
    if not values.spark_executors:
        return list(KINDS)
    *others, pipeline = KINDS
    driver = replace(
        pipeline,
        ports=SPARK_PORTS,
        environment=tuple(_driver_environment(values)),
        files=((EXECUTOR_TEMPLATE, "/etc/penstock/executor"),),
    )
    return [*others, driver]


def _driver_environment(values: Values) -> list[Obj]:
    """What the driver must know of its own Pod, so that executors find it and are removed with it."""
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
    """The Pod that Spark makes executors of: as little trusted as every other here."""
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
    """Settings as variables. Raises pydantic's ValidationError if one is wrong."""
    Settings(**settings)
    return {
        f"PENSTOCK_{name.upper()}": value if isinstance(value, str) else json.dumps(value)
        for name, value in settings.items()
    }


def _settings(values: Values) -> Manifest:
    data = environment(values.settings) if isinstance(values.settings, dict) else values.settings
    return Manifest({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(SETTINGS), "data": data})


def _service(kind: PodKind) -> Manifest:
    name, ports = SERVICES[kind.role]
    metrics = {"name": "metrics", "port": kind.health_port, "targetPort": "metrics"}
    spec: Obj = {"selector": selector(kind.role), "ports": [*ports, metrics]}
    if not ports:  # only Prometheus asks there, and wants each Pod
        spec["clusterIP"] = "None"
    details = metadata(name, labels=role_labels(kind.role))
    return Manifest({"apiVersion": "v1", "kind": "Service", "metadata": details, "spec": spec})


def _disruption(kind: PodKind) -> Manifest:
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": selector(kind.role)}}
    details = metadata(f"penstock-{kind.role}")
    return Manifest({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": details, "spec": spec})


def _network(kind: PodKind) -> Manifest:
    """Who may connect: anybody to what is served, executors to their driver, nobody to anything else."""
    served = [port for name, port in kind.ports.items() if name not in SPARK_PORTS]
    rules: list[Obj] = [{"ports": [{"protocol": "TCP", "port": port} for port in (*served, kind.health_port)]}]
    if kind.ports == SPARK_PORTS:
        executors = {"podSelector": {"matchLabels": {"spark-role": "executor"}}}
        ports = [{"protocol": "TCP", "port": port} for port in SPARK_PORTS.values()]
        rules.append({"from": [executors], "ports": ports})
    spec = {"podSelector": {"matchLabels": selector(kind.role)}, "policyTypes": ["Ingress"], "ingress": rules}
    details = metadata(f"penstock-{kind.role}")
    policy = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": details, "spec": spec}
    return Manifest(policy, choice="network_policies")


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


def _monitor() -> Manifest:
    spec = {
        "selector": {"matchLabels": metadata("")["labels"]},
        "endpoints": [{"port": "metrics", "path": "/metrics", "interval": "30s"}],
    }
    details = metadata("penstock")
    monitor = {"apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor", "metadata": details, "spec": spec}
    return Manifest(monitor, choice="service_monitor")
