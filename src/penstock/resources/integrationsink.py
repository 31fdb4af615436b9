"""IntegrationSink (sinks.knative.dev/v1alpha1): a connector that takes events; here, one that logs them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.contract.names import service_host
from penstock.kube.kinds import Obj
from penstock.oidc.names import child_name
from penstock.resources.admission import AdmissionContext
from penstock.resources.conditions import ConditionFinding, conclude, false, find, true, unknown
from penstock.resources.connectors import (
    NAME_LABEL,
    NOT_SUPPORTED,
    check_connectors,
    connectors_of,
    environment_of,
    not_supported,
)
from penstock.resources.destinations import ResolvedAddress, addresses
from penstock.resources.eventpolicy import OPEN, TargetAccess
from penstock.resources.features import Transport
from penstock.resources.field_errors import FieldErrors, within
from penstock.resources.metadata import ObjectIdentity, controller_reference

# Model.


HERE = "log"
SUFFIX = "-deployment"
IMAGE, CONTAINER, PORT, TLS_PORT = "log-sink", "sink", 8080, 8443
SINK_LABEL = "sinks.knative.dev/integration-sink-name"
"""Beside upstream's label, which Pods of an IntegrationSource of the same name have too."""
_PREFIX = "CAMEL_KAMELET_LOG_SINK"


@dataclass(frozen=True)
class IntegrationSink:
    """The spec of the object, as far as the controllers use it."""

    obj: Obj
    identity: ObjectIdentity
    connector: str
    options: dict[str, Any]
    """Of `spec.log`."""

    @classmethod
    def read(cls, obj: Obj) -> IntegrationSink:
        """The IntegrationSink behind a stored object."""
        spec = obj.get("spec") or {}
        asked = connectors_of(spec, HERE)
        return cls(obj, ObjectIdentity.read(obj), asked[0] if asked else "", dict(spec.get(HERE) or {}))

    @property
    def is_supported(self) -> bool:
        """Whether its connector is here."""
        return self.connector == HERE

    @property
    def part_name(self) -> str:
        """The name of the Deployment and of the Service."""
        return child_name(self.identity.name, SUFFIX)

    @property
    def host(self) -> str:
        """The name of its Service, where it takes events."""
        return service_host(self.part_name, self.identity.namespace)

    def deployment(self, transport: Transport = "disabled") -> Obj:
        """What logs events."""
        env = environment_of(_PREFIX, self.options)
        if transport != "disabled":
            env.append({"name": "HTTPS_SERVICE", "value": self.part_name})
        if transport == "strict":
            env.append({"name": "DISABLE_HTTP_SERVER", "value": "true"})
        ports = [{"containerPort": port, "name": name, "protocol": "TCP"} for name, _, port in _ports(transport)]
        container = {"name": CONTAINER, "image": IMAGE, "env": env, "ports": ports}
        template = {"metadata": {"labels": self._labels()}, "spec": {"containers": [container]}}
        spec = {"replicas": 1, "selector": {"matchLabels": self._labels()}, "template": template}
        return self._part("apps/v1", "Deployment", spec)

    def service(self, transport: Transport = "disabled", *, guarded: bool = False) -> Obj:
        """The Service in front of it. `guarded`: over TLS it responds only to the proxy that checks tokens."""
        ports = [
            {"name": name, "port": port, "protocol": "TCP", "targetPort": PORT if guarded else target}
            for name, port, target in _ports(transport)
        ]
        return self._part("v1", "Service", {"selector": self._labels(), "ports": ports})

    def _labels(self) -> dict[str, str]:
        return {NAME_LABEL: self.identity.name, SINK_LABEL: self.identity.name}

    def _part(self, api_version: str, kind: str, spec: dict[str, Any]) -> Obj:
        metadata = {
            "name": self.part_name,
            "namespace": self.identity.namespace,
            "labels": self._labels(),
            "ownerReferences": [controller_reference(self.obj)],
        }
        return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def _ports(transport: Transport) -> list[tuple[str, int, int]]:
    """Names, ports of the Service, and ports of the Pods behind them."""
    plain, secure = ("http", 80, PORT), ("https", 443, TLS_PORT)
    return {"disabled": [plain], "permissive": [secure, plain], "strict": [secure]}[transport]


# Validation.


OF_AWS = {"s3": ("s3.arn", "s3.region"), "sqs": ("sqs.arn", "sqs.region"), "sns": ("sns.arn", "sns.region")}


def check(obj: Obj, old: Obj | None, ctx: AdmissionContext) -> FieldErrors:
    """Every complaint about the IntegrationSink."""
    return within("spec", check_connectors(obj.get("spec") or {}, HERE, OF_AWS, "sink"))


# Status.


DEPLOYMENT_READY = "DeploymentReady"


@dataclass(frozen=True)
class IntegrationSinkObservation:
    """What the controller has found out."""

    deployment: Mapping[str, Any] | None
    """As stored; None: there is none."""
    known: tuple[ResolvedAddress, ...]
    """Where it takes events once it runs, the address to prefer first."""
    failure: str | None = None
    """Why a part cannot be had."""
    access: TargetAccess = OPEN


def status_of(obj: Obj, seen: IntegrationSinkObservation, now: str) -> dict[str, Any]:
    """The IntegrationSink's status. It has an address once its Deployment is available."""
    wanted = IntegrationSink.read(obj)
    previous = (obj.get("status") or {}).get("conditions") or []
    running = _deployment_finding(wanted, seen)
    takes = running.status == "True"
    waiting = false("Addressable", "WaitingForServiceEndpoints", "URL is empty")
    findings = [
        running,
        true("Addressable") if takes else waiting,
        seen.access.finding(),
        true("TrustBundlePropagated"),
    ]
    if any(address.ca_certs for address in seen.known):
        findings.append(ConditionFinding("CertificateReady", "True", severity="Info"))
    return {
        "observedGeneration": wanted.identity.generation,
        "conditions": conclude(previous, findings, now),
        **(addresses(*seen.known) if takes else {}),
        **seen.access.fields(),
    }


def _deployment_finding(wanted: IntegrationSink, seen: IntegrationSinkObservation) -> ConditionFinding:
    if not wanted.is_supported:
        return false(DEPLOYMENT_READY, NOT_SUPPORTED, not_supported(wanted.connector, HERE))
    if seen.failure is not None:
        return false(DEPLOYMENT_READY, "DeploymentFailed", seen.failure)
    deployment = seen.deployment or {}
    status, desired = deployment.get("status") or {}, int((deployment.get("spec") or {}).get("replicas", 1))
    current = status.get("observedGeneration") in (None, (deployment.get("metadata") or {}).get("generation"))
    updated, available = int(status.get("updatedReplicas") or 0), int(status.get("availableReplicas") or 0)
    if seen.deployment is not None and current and updated == available == desired:
        return true(DEPLOYMENT_READY)
    conditions = status.get("conditions")
    for kind in ("Available", "Progressing"):
        found = find(conditions, kind) or {}
        if found.get("status") == "False":
            return false(DEPLOYMENT_READY, str(found.get("reason") or ""), str(found.get("message") or ""))
    if find(conditions, "Available") is None:
        return unknown(DEPLOYMENT_READY, "DeploymentUnavailable", "The Deployment is unavailable")
    message = f"Deployment rollout in progress: {available}/{desired} replicas updated and available"
    return unknown(DEPLOYMENT_READY, "DeploymentRollingOut", message)
