"""EventTransform (eventing.knative.dev/v1alpha1): what a JSONata expression makes of events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.contract.names import service_host
from penstock.kube.kinds import Obj
from penstock.oidc.names import child_name
from penstock.resources.admission import AdmissionContext, namespace_of
from penstock.resources.conditions import ConditionFinding, conclude, false, true, unknown
from penstock.resources.destinations import (
    Resolution,
    ResolvedAddress,
    Unresolved,
    addresses,
    check_destination,
    fill_destination,
)
from penstock.resources.eventpolicy import OPEN, TargetAccess
from penstock.resources.features import Transport
from penstock.resources.field_errors import FieldError, FieldErrors, within
from penstock.resources.metadata import ObjectIdentity, controller_reference

# Model.


GROUP, KIND, PLURAL = "eventing.knative.dev", "EventTransform", "eventtransforms"

IMAGE, CONTAINER, PORT, TLS_PORT = "transform-jsonata", "jsonata-event-transform", 8080, 8443
JSONATA_LABEL, NAME_LABEL = "eventing.knative.dev/event-transform-jsonata", "eventing.knative.dev/event-transform-name"

SUFFIX = "-jsonata"


@dataclass(frozen=True)
class EventTransform:
    """The spec of the object, as far as the controllers use it."""

    obj: Obj
    identity: ObjectIdentity
    expression: str
    sink: dict[str, Any] | None
    reply_expression: str
    discards_reply: bool

    @classmethod
    def read(cls, obj: Obj) -> EventTransform:
        """The EventTransform behind a stored object."""
        spec = obj.get("spec") or {}
        reply = spec.get("reply") or {}
        return cls(
            obj,
            ObjectIdentity.read(obj),
            str((spec.get("jsonata") or {}).get("expression") or ""),
            spec.get("sink") or None,
            str((reply.get("jsonata") or {}).get("expression") or ""),
            bool(reply.get("discard")),
        )

    @property
    def part_name(self) -> str:
        """The name of the Deployment and of the Service."""
        return child_name(self.identity.name, SUFFIX)

    @property
    def host(self) -> str:
        """The name of its Service, where it takes events."""
        return service_host(self.part_name, self.identity.namespace)

    def deployment(self, sink: str | None, transport: Transport = "disabled") -> Obj:
        """What transforms; `sink` is where the sink leads."""
        variables = {"JSONATA_TRANSFORM": self.expression, "JSONATA_RESPONSE_TRANSFORM": self.reply_expression}
        variables |= {"JSONATA_DISCARD_RESPONSE_BODY": "true" if self.discards_reply else "false", "K_SINK": sink or ""}
        variables |= {"HTTPS_SERVICE": "" if transport == "disabled" else self.part_name}
        variables |= {"DISABLE_HTTP_SERVER": "true" if transport == "strict" else ""}
        ports = [{"containerPort": port, "name": name, "protocol": "TCP"} for name, _, port in _ports(transport)]
        container = {
            "name": CONTAINER,
            "image": IMAGE,
            "env": [{"name": name, "value": value} for name, value in variables.items() if value],
            "ports": ports,
        }
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
        return {JSONATA_LABEL: "true", NAME_LABEL: self.identity.name}

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


# Defaults.


def fill(obj: Obj, ctx: AdmissionContext) -> None:
    """Fills in what was left out."""
    fill_destination(obj["spec"].get("sink"), namespace_of(obj, ctx))


# Validation.


_NO_CERTIFICATES = (
    "CACerts for the sink is not supported for JSONata transformations, to propagate CA trust bundles use labeled "
    "ConfigMaps: https://knative.dev/docs/eventing/features/transport-encryption/"
    "#configure-additional-ca-trust-bundles"
)


def check(obj: Obj, old: Obj | None, ctx: AdmissionContext) -> FieldErrors:
    """Every complaint about the EventTransform. Whether an expression can be read, its Pod says, as with Knative."""
    spec = obj.get("spec") or {}
    sink, reply = spec.get("sink"), spec.get("reply")
    errors: FieldErrors = []
    if spec.get("jsonata") is None:
        errors.append(FieldError("expected exactly one, got neither", ("jsonata",)))
    if sink is not None:
        errors += within("sink", check_destination(sink))
        if sink.get("CACerts") is not None and spec.get("jsonata") is not None:
            errors.append(FieldError(_NO_CERTIFICATES, ("sink.CACerts",)))
    if reply is not None:
        errors += within("reply", _check_reply(reply, has_sink=sink is not None))
    return within("spec", errors)


def _check_reply(reply: dict[str, Any], *, has_sink: bool) -> FieldErrors:
    if not has_sink:
        return [FieldError("reply is set without spec.sink", ("",))]
    if reply.get("jsonata") is not None and reply.get("discard"):
        return [FieldError("expected exactly one, got both", ("discard", "jsonata"))]
    return []


# Status.


DEPLOYMENT_READY = "JsonataDeploymentReady"
SINK_BINDING_READY = "JsonataSinkBindingReady"
TRANSFORMATION_READY = "TransformationReady"


@dataclass(frozen=True)
class EventTransformObservation:
    """What the controller has found out."""

    deployment: Mapping[str, Any] | None
    """As stored; None: there is none."""
    sink: Resolution
    known: tuple[ResolvedAddress, ...]
    """Where it takes events once it runs, the address to prefer first."""
    failure: str | None = None
    """Why a part cannot be had."""
    access: TargetAccess = OPEN


def status_of(obj: Obj, seen: EventTransformObservation, now: str) -> dict[str, Any]:
    """The EventTransform's status."""
    wanted = EventTransform.read(obj)
    previous = (obj.get("status") or {}).get("conditions") or []
    running, bound = _deployment_finding(seen), _sink_finding(seen.sink)
    ready = _transformation_finding(running, bound)
    takes = ready.status == "True"
    waiting = false("Addressable", "WaitingForServiceEndpoints", "URL is empty")
    addressable = true("Addressable") if takes else waiting
    status: dict[str, Any] = {
        "observedGeneration": wanted.identity.generation,
        "conditions": conclude(previous, [running, bound, ready, addressable, seen.access.finding()], now),
        "jsonata": {"deployment": dict((seen.deployment or {}).get("status") or {})},
        **seen.access.fields(),
    }
    if takes:
        known = addresses(*seen.known)
        # Who knows only one address gets the first, as in Knative, where other Addressables give the last.
        status |= known | {"address": known["addresses"][0]}
    if isinstance(seen.sink, ResolvedAddress):
        status |= seen.sink.fields("sink")
    return status


def _deployment_finding(seen: EventTransformObservation) -> ConditionFinding:
    if seen.failure is not None:
        return false(DEPLOYMENT_READY, "JsonataDeploymentUnavailable", seen.failure)
    if seen.deployment is None:
        return unknown(DEPLOYMENT_READY)
    status = seen.deployment.get("status") or {}
    wanted, available = int(status.get("replicas") or 0), int(status.get("availableReplicas") or 0)
    if wanted > 0 and wanted == available and _is_current(seen.deployment):
        return true(DEPLOYMENT_READY)
    message = f"Expected replicas: {wanted}, available: {available}"
    return false(DEPLOYMENT_READY, "JsonataDeploymentUnavailable", message)


def _is_current(deployment: Mapping[str, Any]) -> bool:
    """Whether its Pods are those of the expression as it is now."""
    status = deployment.get("status") or {}
    observed = status.get("observedGeneration") in (None, (deployment.get("metadata") or {}).get("generation"))
    return observed and status.get("updatedReplicas", status.get("replicas")) == status.get("replicas")


def _sink_finding(sink: Resolution) -> ConditionFinding:
    if isinstance(sink, Unresolved):
        return false(SINK_BINDING_READY, "SinkNotFound", sink.message)
    return true(SINK_BINDING_READY)


def _transformation_finding(running: ConditionFinding, bound: ConditionFinding) -> ConditionFinding:
    decisive = bound if running.status == "True" or bound.status == "False" else running
    return ConditionFinding(TRANSFORMATION_READY, decisive.status, decisive.reason, decisive.message)
