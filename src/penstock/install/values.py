"""What can be chosen of an installation. The Helm chart has the same choices in its `values.yaml`."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

from penstock.contract.names import CLUSTER_DOMAIN
from penstock.install.tls import Tls
from penstock.resources.admission import SYSTEM_NAMESPACE

ADDRESS = f"http://broker-ingress.{SYSTEM_NAMESPACE}.svc.{CLUSTER_DOMAIN}"
"""Where producers in the cluster reach the ingress."""

Resources = dict[str, dict[str, str]]


def _settings() -> dict[str, Any]:
    return {
        "kafka": "kafka-bootstrap.kafka.svc:9092",
        "partitions": 4,
        "broker_classes": ["Penstock"],
        "address_base": ADDRESS,
        "drain_seconds": 25,
        "host": "0.0.0.0",  # noqa: S104
        "insecure_open": True,  # in a Pod: who may connect is for NetworkPolicies to say, or for authentication-oidc
        "kubeconfig": "in-cluster",
        "lease_namespace": SYSTEM_NAMESPACE,
        "data_dir": "/var/lib/penstock",
    }


@dataclass(frozen=True)
class RolePods:
    """How many Pods of a role there are, and what each gets."""

    replicas: Any = 2
    resources: Any = field(default_factory=dict)


@dataclass(frozen=True)
class OptionalRole(RolePods):
    """A role that an installation can do without."""

    enabled: bool = True


def _resources(cpu: str, memory: str, memory_limit: str) -> Resources:
    """No limit of processor time: a role that is held back would only deliver later."""
    return {"requests": {"cpu": cpu, "memory": memory}, "limits": {"memory": memory_limit}}


@dataclass(frozen=True)
class Values:
    """The choices, with their defaults. In the chart each of them is an expression instead."""

    image: Any = field(default_factory=lambda: f"penstock:{version('penstock')}")
    image_pull_policy: Any = "IfNotPresent"
    settings: Any = field(default_factory=_settings)
    """Settings of penstock by their names (`docs/settings.md`); the same for every role."""
    environment_from: Any = "penstock-secrets"
    """A Secret whose entries become environment variables, such as PENSTOCK_KAFKA_CONF. It may be missing."""
    files_from: Any = "penstock-kafka-tls"
    """A Secret whose entries become files in /etc/penstock/tls, for `ssl.ca.location` and such. It may be missing."""
    ingress: RolePods = field(default_factory=lambda: RolePods(2, _resources("250m", "256Mi", "1Gi")))
    ingress_max_replicas: Any = 10
    ingress_target_cpu: Any = 70
    control: RolePods = field(default_factory=lambda: RolePods(2, _resources("100m", "256Mi", "1Gi")))
    webhook: RolePods = field(default_factory=lambda: RolePods(2, _resources("50m", "128Mi", "512Mi")))
    pipeline: RolePods = field(default_factory=lambda: RolePods(2, _resources("1", "2Gi", "4Gi")))
    console: OptionalRole = field(default_factory=lambda: OptionalRole(1, _resources("50m", "256Mi", "1Gi")))
    """One Pod: who has signed in is remembered in its memory."""
    history: OptionalRole = field(
        default_factory=lambda: OptionalRole(1, _resources("500m", "1Gi", "3Gi"), enabled=False)
    )
    """Needs the setting `history_uri`: a place that every Pod reaches, such as `s3a://…`."""
    tls: Tls = field(default_factory=Tls)
    api_server_sources: bool = True
    """Whether the controllers may impersonate the ServiceAccounts of every namespace, as ApiServerSources need it."""
    sink_bindings: bool = True
    """Whether the controllers may change workloads and write ConfigMaps in every namespace, as SinkBindings and
    ContainerSources need it."""
    spark_executors: bool = False
    """Whether the pipeline's driver starts its executors as Pods (`spark_master` begins with `k8s://`)."""
    service_monitor: bool = False
    """Whether Prometheus' operator is installed and gets a ServiceMonitor."""
    network_policies: bool = True
