"""The values of an installation, the same as in the `values.yaml` of the Helm chart, and the settings that follow from
them."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.metadata import version
from operator import attrgetter
from typing import Any

from penstock.contract.names import CLUSTER_DOMAIN
from penstock.engine.roles.table import role_of
from penstock.install import tls
from penstock.install.tls import Tls
from penstock.resources.admission import SYSTEM_NAMESPACE

ADDRESS = f"http://broker-ingress.{SYSTEM_NAMESPACE}.svc.{CLUSTER_DOMAIN}"
"""The address of the ingress for producers in the cluster."""

Resources = dict[str, dict[str, str]]


def _settings() -> dict[str, Any]:
    return {
        "kafka": "kafka-bootstrap.kafka.svc:9092",
        "partitions": 4,
        "broker_classes": ["Penstock"],
        "address_base": ADDRESS,
        "drain_seconds": 25,
        "host": "0.0.0.0",  # noqa: S104
        "insecure_open": True,  # in a Pod: NetworkPolicies or authentication-oidc decide who may connect
        "kubeconfig": "in-cluster",
        "lease_namespace": SYSTEM_NAMESPACE,
        "data_dir": "/var/lib/penstock",
    }


@dataclass(frozen=True)
class RolePods:
    """The number of Pods of a role, and the resources of each."""

    replicas: Any = 2
    resources: Any = field(default_factory=dict)


@dataclass(frozen=True)
class OptionalRole(RolePods):
    """An optional role."""

    enabled: bool = True


def _resources(cpu: str, memory: str, memory_limit: str) -> Resources:
    """Without a CPU limit: a throttled role would only deliver later."""
    return {"requests": {"cpu": cpu, "memory": memory}, "limits": {"memory": memory_limit}}


@dataclass(frozen=True)
class Values:
    """The values, with their defaults. In the chart each of them is a Helm expression."""

    image: Any = field(default_factory=lambda: f"penstock:{version('penstock')}")
    image_pull_policy: Any = "IfNotPresent"
    settings: Any = field(default_factory=_settings)
    """Settings of penstock by their names (`docs/settings.md`); the same for every role."""
    environment_from: Any = "penstock-secrets"
    """A Secret whose keys become environment variables, such as PENSTOCK_KAFKA_CONF. It may be missing."""
    files_from: Any = "penstock-kafka-tls"
    """A Secret whose keys become files in /etc/penstock/tls, for `ssl.ca.location` and such. It may be missing."""
    ingress: RolePods = field(default_factory=lambda: RolePods(2, _resources("250m", "256Mi", "1Gi")))
    ingress_max_replicas: Any = 10
    ingress_target_cpu: Any = 70
    control: RolePods = field(default_factory=lambda: RolePods(2, _resources("100m", "256Mi", "1Gi")))
    webhook: RolePods = field(default_factory=lambda: RolePods(2, _resources("50m", "128Mi", "512Mi")))
    pipeline: RolePods = field(default_factory=lambda: RolePods(2, _resources("1", "2Gi", "4Gi")))
    console: OptionalRole = field(default_factory=lambda: OptionalRole(1, _resources("50m", "256Mi", "1Gi")))
    """One Pod, because it keeps its sessions in memory."""
    history: OptionalRole = field(
        default_factory=lambda: OptionalRole(1, _resources("500m", "1Gi", "3Gi"), enabled=False)
    )
    """Needs the setting `history_uri`: storage that every Pod can reach, such as `s3a://…`."""
    tls: Tls = field(default_factory=Tls)
    api_server_sources: bool = True
    """Whether the controllers may impersonate the ServiceAccounts of every namespace, as ApiServerSources need it."""
    sink_bindings: bool = True
    """Whether the controllers may change workloads and write ConfigMaps in every namespace, as SinkBindings and
    ContainerSources need it."""
    spark_executors: bool = False
    """Whether the pipeline's driver starts its executors as Pods (`spark_master` begins with `k8s://`)."""
    service_monitor: bool = False
    """Whether Prometheus' operator is installed, so that a ServiceMonitor is created."""
    network_policies: bool = True


EXECUTORS = {"spark_master": "k8s://https://kubernetes.default.svc", "spark_executors": 2}
"""The settings with which a driver creates its executors in Kubernetes."""
COUNTING = ("pipeline", "ingress")
"""Roles whose metrics the console shows."""
CONSOLE_NAMES = [f"penstock-console.{SYSTEM_NAMESPACE}{ending}" for ending in ("", ".svc", f".svc.{CLUSTER_DOMAIN}")]


@dataclass(frozen=True)
class Implied:
    """Settings, and the values that they follow from. Settings given in the values have precedence."""

    choices: tuple[str, ...]
    """Attributes of `Values` that must all be true."""
    settings: dict[str, Any]


def implied(values: Values) -> list[Implied]:
    """All of them; where two name the same setting, the first counts."""
    return [
        Implied(("spark_executors",), EXECUTORS),
        Implied(("history.enabled",), {"history": True}),
        Implied(("tls.is_on",), tls.SETTINGS),
        Implied(("tls.is_on", "tls.authority"), {"tls_ca_file": f"{tls.CERTIFICATE_FOLDER}/{values.tls.authority}"}),
        Implied(("console.enabled", "tls.is_on"), {"console_metrics": metrics_pages("https")}),
        Implied(("console.enabled",), {"console_metrics": metrics_pages("http"), "console_hosts": CONSOLE_NAMES}),
        Implied((), {"history": False}),  # no role would write it
    ]


def metrics_pages(scheme: str) -> list[str]:
    """Where the console finds the metrics: Services whose names resolve to every single Pod."""
    return [
        f"{scheme}://penstock-{role}.{SYSTEM_NAMESPACE}.svc:{role_of(role).health_port}/metrics" for role in COUNTING
    ]


def completed(values: Values) -> dict[str, Any]:
    """The settings of an installation, with those that follow from its values."""
    settings: dict[str, Any] = dict(values.settings)
    for one in implied(values):
        if all(attrgetter(choice)(values) for choice in one.choices):
            settings = {**one.settings, **settings}
    return settings
