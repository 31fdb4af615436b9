"""Broker (eventing.knative.dev/v1)."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from penstock.kube.kinds import Obj
from penstock.resources.admission import AdmissionContext, annotations_of, namespace_of
from penstock.resources.conditions import READY, ConditionFinding, conclude, false, find, true, unknown
from penstock.resources.delivery import check_delivery, fill_delivery
from penstock.resources.destinations import (
    Resolution,
    ResolvedAddress,
    addresses,
    check_reference,
    dead_letter_finding,
    fill_namespace,
)
from penstock.resources.eventpolicy import OPEN, TargetAccess
from penstock.resources.field_errors import FieldErrors, changed, within
from penstock.resources.metadata import ObjectIdentity

# Model.


GROUP, KIND, PLURAL = "eventing.knative.dev", "Broker", "brokers"
CLASS_ANNOTATION = "eventing.knative.dev/broker.class"


@dataclass(frozen=True)
class Broker:
    """The spec of the object, as far as the controllers use it."""

    identity: ObjectIdentity
    broker_class: str
    delivery: dict[str, Any] | None
    config: dict[str, Any] | None = None
    """The reference to its configuration."""

    @classmethod
    def read(cls, obj: Obj) -> Broker:
        """The Broker behind a stored object."""
        return cls(
            ObjectIdentity.read(obj),
            annotations_of(obj).get(CLASS_ANNOTATION, ""),
            (obj.get("spec") or {}).get("delivery"),
            (obj.get("spec") or {}).get("config"),
        )


# Defaults.


CONFIG_MAP = "config-br-defaults"
KEY = "default-br-config"

_REFERENCE = ("kind", "namespace", "name", "apiVersion")


def fill(obj: Obj, ctx: AdmissionContext) -> None:
    """Fills in what was left out."""
    namespace = namespace_of(obj, ctx)
    configured = _configured(ctx)
    annotations = annotations_of(obj)
    if not annotations.get(CLASS_ANNOTATION):
        annotations[CLASS_ANNOTATION] = _class(configured, namespace) or ctx.settings.default_broker_class
    obj.setdefault("metadata", {})["annotations"] = annotations
    spec = obj["spec"]
    for entry in _entries(configured, namespace, annotations[CLASS_ANNOTATION]):
        if not spec.get("config") and entry.get("name"):
            spec["config"] = {name: entry[name] for name in _REFERENCE if entry.get(name)}
        if spec.get("delivery") is None and entry.get("delivery"):
            spec["delivery"] = copy.deepcopy(entry["delivery"])
    fill_namespace(spec.get("config"), namespace)
    fill_delivery(spec.get("delivery"), namespace)


def _configured(ctx: AdmissionContext) -> dict[str, Any]:
    try:
        parsed = yaml.safe_load(ctx.configmaps.get(CONFIG_MAP, {}).get(KEY, ""))
    except yaml.YAMLError:
        # A broken ConfigMap must not keep Brokers from being created.
        return {}
    return parsed if isinstance(parsed, dict) else {}


def _scopes(configured: dict[str, Any], namespace: str) -> Iterator[dict[str, Any]]:
    for scope in ((configured.get("namespaceDefaults") or {}).get(namespace), configured.get("clusterDefault")):
        if isinstance(scope, dict):
            yield scope


def _class(configured: dict[str, Any], namespace: str) -> str | None:
    return next(
        (str(scope["brokerClass"]) for scope in _scopes(configured, namespace) if scope.get("brokerClass")), None
    )


def _entries(configured: dict[str, Any], namespace: str, broker_class: str) -> Iterator[dict[str, Any]]:
    for scope in _scopes(configured, namespace):
        by_class = (scope.get("brokerClasses") or {}).get(broker_class)
        if isinstance(by_class, dict):
            yield by_class
        yield scope


# Validation.


def check(obj: Obj, old: Obj | None, ctx: AdmissionContext) -> FieldErrors:
    """Every complaint about the Broker."""
    spec = obj.get("spec") or {}
    errors: FieldErrors = []
    if spec.get("config"):
        errors += within("config", check_reference(spec["config"], None))
    errors += within("delivery", check_delivery(spec.get("delivery"), ctx))
    errors = within("spec", errors)
    if old is not None:
        errors += _check_immutable(obj, old)
    return errors


def _check_immutable(obj: Obj, old: Obj) -> FieldErrors:
    message = "Immutable fields changed"
    errors = changed(message, "v1.BrokerSpec", _fixed(old), _fixed(obj), "spec")
    before, after = annotations_of(old).get(CLASS_ANNOTATION), annotations_of(obj).get(CLASS_ANNOTATION)
    return errors + changed(message, "string", before or "", after or "", "annotations")


def _fixed(obj: Obj) -> dict[str, Any]:
    return {name: value for name, value in (obj.get("spec") or {}).items() if name != "delivery"}


# Status.


INGRESS_READY = "IngressReady"
CONFIG_PARSED = "ConfigParsed"
CLASS_NOT_SERVED = "BrokerClassNotServed"


@dataclass(frozen=True)
class BrokerObservation:
    """What the controller has found out."""

    addresses: tuple[ResolvedAddress, ...]
    """The one to prefer first, the one of plain HTTP last."""
    ingress_takes_it: bool
    """Whether every ingress acts by a snapshot that has this Broker."""
    dead_letter: Resolution
    config_problem: str | None = None
    """Why `spec.config` leads nowhere; None where it is found, or none is given."""
    access: TargetAccess = OPEN


def status_of(obj: Obj, seen: BrokerObservation, now: str) -> dict[str, Any]:
    """The Broker's status."""
    previous = (obj.get("status") or {}).get("conditions") or []
    ingress = (
        true(INGRESS_READY)
        if seen.ingress_takes_it
        else unknown(INGRESS_READY, "EndpointSlicesUnavailable", "The ingress has not taken up the Broker yet.")
    )
    findings = [
        ingress,
        true("Addressable"),
        _config_finding(seen.config_problem),
        dead_letter_finding(seen.dead_letter),
        seen.access.finding(),
    ]
    status: dict[str, Any] = {
        "observedGeneration": ObjectIdentity.read(obj).generation,
        "conditions": conclude(previous, findings, now),
        **addresses(*seen.addresses),
        **seen.access.fields(),
    }
    if isinstance(seen.dead_letter, ResolvedAddress):
        status |= seen.dead_letter.fields("deadLetterSink")
    return status


def _config_finding(problem: str | None) -> ConditionFinding:
    if problem is None:
        return true(CONFIG_PARSED)
    return false(CONFIG_PARSED, "ChannelTemplateFailed", f"Error on setting up the ChannelTemplate: {problem}")


def status_of_unserved(obj: Obj, broker_class: str, served: Iterable[str], now: str) -> dict[str, Any]:
    """The status of a Broker whose class is not served here."""
    classes = ", ".join(f'"{name}"' for name in served)
    message = f'Brokers of the class "{broker_class}" are not served here; classes that are: {classes}'
    previous = (obj.get("status") or {}).get("conditions") or []
    findings = [false(INGRESS_READY, CLASS_NOT_SERVED, message)]
    return {"observedGeneration": ObjectIdentity.read(obj).generation, "conditions": conclude(previous, findings, now)}


def is_unattended(obj: Obj) -> bool:
    """Whether only `status_of_unserved` has written the Broker's status: another controller may serve it."""
    ready = find((obj.get("status") or {}).get("conditions"), READY)
    return ready is None or ready.get("reason") == CLASS_NOT_SERVED
