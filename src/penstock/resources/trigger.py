"""Trigger (eventing.knative.dev/v1)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.kube.kinds import Obj
from penstock.resources import features
from penstock.resources.admission import AdmissionContext, annotations_of, namespace_of
from penstock.resources.conditions import READY, ConditionFinding, conclude, false, find, true, unknown
from penstock.resources.delivery import RouteOptions, check_delivery, check_options, fill_delivery
from penstock.resources.delivery_status import RouteObservation, delivery_fields
from penstock.resources.destinations import (
    DEAD_LETTER_SINK_RESOLVED,
    Resolution,
    ResolvedAddress,
    Unresolved,
    check_destination,
    check_event_link,
    check_reference,
    dead_letter_finding,
    fill_destination,
)
from penstock.resources.eventpolicy import OIDC_IDENTITY_CREATED
from penstock.resources.field_errors import FieldError, FieldErrors, changed, disallowed, missing, within
from penstock.resources.filters import check_filters
from penstock.resources.metadata import ObjectIdentity

# Model.


GROUP, KIND, PLURAL = "eventing.knative.dev", "Trigger", "triggers"
BROKER_LABEL = "eventing.knative.dev/broker"
DEPENDENCY_ANNOTATION = "knative.dev/dependency"
INJECTION_ANNOTATION = "eventing.knative.dev/injection"


@dataclass(frozen=True)
class Trigger:
    """The spec of the object, as far as the controllers use it."""

    identity: ObjectIdentity
    broker: str
    broker_namespace: str
    attributes: dict[str, str]
    filters: list[dict[str, Any]]
    subscriber: dict[str, Any]
    delivery: dict[str, Any] | None
    dependency: str | None
    options: RouteOptions

    @classmethod
    def read(cls, obj: Obj) -> Trigger:
        """The Trigger behind a stored object."""
        spec = obj.get("spec") or {}
        identity = ObjectIdentity.read(obj)
        reference = spec.get("brokerRef") or {}
        return cls(
            identity,
            str(spec.get("broker") or reference.get("name") or ""),
            str(reference.get("namespace") or identity.namespace),
            dict((spec.get("filter") or {}).get("attributes") or {}),
            list(spec.get("filters") or []),
            dict(spec.get("subscriber") or {}),
            spec.get("delivery"),
            annotations_of(obj).get(DEPENDENCY_ANNOTATION),
            RouteOptions.read(obj),
        )


# Dependency.


def no_dependency() -> ConditionFinding:
    """Nothing is waited for."""
    return true(DEPENDENCY_READY)


def unreadable_dependency(error: str) -> ConditionFinding:
    """The annotation does not name an object."""
    message = f"Unable to unmarshal objectReference from dependency annotation of trigger: {error}"
    return false(DEPENDENCY_READY, "ReferenceError", message)


def missing_dependency(error: str) -> ConditionFinding:
    """The object is not there."""
    return false(DEPENDENCY_READY, "DependencyDoesNotExist", f"Dependency does not exist: {error}")


def dependency_finding(dependency: Mapping[str, Any]) -> ConditionFinding:
    """How ready the object is."""
    status = dependency.get("status") or {}
    generation = (dependency.get("metadata") or {}).get("generation")
    observed = status.get("observedGeneration")
    if generation is not None and observed is not None and generation != observed:
        message = (
            f'The dependency\'s metadata.generation, "{generation}", is not equal to its '
            f'status.observedGeneration, "{observed}".'
        )
        return unknown(DEPENDENCY_READY, "GenerationNotEqual", message)
    ready = find(status.get("conditions"), READY)
    if ready is None:
        return unknown(DEPENDENCY_READY, "DependencyNotConfigured", "Dependency has not yet been reconciled.")
    return ConditionFinding(DEPENDENCY_READY, ready["status"], ready.get("reason") or "", ready.get("message") or "")


# Defaults.


def fill(obj: Obj, ctx: AdmissionContext) -> None:
    """Fills in what was left out."""
    namespace = namespace_of(obj, ctx)
    spec = obj["spec"]
    if spec.get("filter") is None:
        spec["filter"] = {}
    if spec.get("broker"):
        metadata = obj.setdefault("metadata", {})
        metadata["labels"] = {**(metadata.get("labels") or {}), BROKER_LABEL: spec["broker"]}
    fill_destination(spec.get("subscriber"), namespace)
    fill_delivery(spec.get("delivery"), namespace)


# Validation.


def check(obj: Obj, old: Obj | None, ctx: AdmissionContext) -> FieldErrors:
    """Every complaint about the Trigger."""
    spec = obj.get("spec") or {}
    errors = _check_broker(spec, ctx)
    errors += check_filters((spec.get("filter") or {}).get("attributes"), spec.get("filters"), ctx)
    errors += within("subscriber", check_destination(spec.get("subscriber") or {}))
    errors += within("delivery", check_delivery(spec.get("delivery"), ctx))
    errors = within("spec", errors)
    if (reference := spec.get("brokerRef")) and features.enabled("cross-namespace-event-links", ctx):
        # Whatever kind and group it names, what is read is a Broker.
        broker = {**reference, "apiVersion": f"{GROUP}/v1"}
        errors += check_event_link(broker, "brokers", obj, old, ctx)
    annotations = annotations_of(obj)
    if DEPENDENCY_ANNOTATION in annotations:
        found = _check_dependency(annotations[DEPENDENCY_ANNOTATION], namespace_of(obj, ctx))
        errors += within(f"metadata.annotations[{DEPENDENCY_ANNOTATION}]", found)
    if INJECTION_ANNOTATION in annotations:
        found = _check_injection(annotations[INJECTION_ANNOTATION], spec.get("broker"))
        errors += within(f"metadata.annotations[{INJECTION_ANNOTATION}]", found)
    errors += check_options(obj)
    if old is not None:
        before, after = (old.get("spec") or {}).get("broker"), spec.get("broker")
        errors += changed("Immutable fields changed", "string", before or "", after or "", "spec", "broker")
    return errors


def dependency_reference(annotation: str) -> dict[str, str]:
    """The object that the annotation names. Raises ValueError if it is not an ObjectReference."""
    reference = json.loads(annotation)
    if not isinstance(reference, dict) or not all(isinstance(value, str) for value in reference.values()):
        raise ValueError("expected a JSON object of strings")
    return reference


def _check_broker(spec: Obj, ctx: AdmissionContext) -> FieldErrors:
    reference = spec.get("brokerRef")
    if not reference:
        return [] if spec.get("broker") else [missing("broker")]
    if spec.get("broker"):
        return [FieldError("expected exactly one, got both", ("broker", "brokerRef"))]
    if not features.enabled("cross-namespace-event-links", ctx):
        return [disallowed("brokerRef"), missing("broker")]
    return within("brokerRef", check_reference(reference, None))


def _check_dependency(annotation: str, namespace: str) -> FieldErrors:
    try:
        reference = dependency_reference(annotation)
    except ValueError as error:
        quoted = json.dumps(annotation)
        return [FieldError(f"The provided annotation was not a corev1.ObjectReference: {quoted}", ("",), str(error))]
    errors = [missing(name) for name in ("kind", "name", "apiVersion") if not reference.get(name)]
    if reference.get("namespace") not in (None, "", namespace):
        errors.append(
            FieldError(f'Namespace must be empty or equal to the trigger namespace "{namespace}"', ("namespace",))
        )
    return errors


def _check_injection(value: str, broker: str | None) -> FieldErrors:
    if value not in ("enabled", "disabled"):
        message = (
            f'The provided injection annotation value can only be "enabled" or "disabled", not {json.dumps(value)}'
        )
        return [FieldError(message, ("",))]
    if broker != "default":
        message = "The provided injection annotation is only used for default broker, but non-default broker specified"
        return [FieldError(f"{message} here: {json.dumps(broker or '')}", ("",))]
    return []


# Status.


BROKER_READY = "BrokerReady"
DEPENDENCY_READY = "DependencyReady"
SUBSCRIBER_RESOLVED = "SubscriberResolved"
SUBSCRIPTION_READY = "SubscriptionReady"


@dataclass(frozen=True)
class TriggerObservation(RouteObservation):
    """What the controller has found out."""

    broker_name: str
    broker: Mapping[str, Any] | None
    """The Broker as stored; None: there is none."""
    subscriber: ResolvedAddress | Unresolved
    dead_letter: Resolution
    """The Trigger's own dead letter sink, or the Broker's where the Trigger has no delivery options."""
    dependency: ConditionFinding
    taken: bool
    """Whether the data plane acts by this Trigger as it is now."""
    left_out: str | None = None
    """Why it never will; None where nothing is known to be in its way."""
    refused: str | None = None
    """Why it does without this Trigger; None where it does not."""
    waiting: str = ""
    """Why it cannot act by anything new for now, where that is known."""


def status_of(obj: Obj, seen: TriggerObservation, now: str) -> dict[str, Any]:
    """The Trigger's status."""
    previous = (obj.get("status") or {}).get("conditions") or []
    status: dict[str, Any] = {"observedGeneration": ObjectIdentity.read(obj).generation}
    status["conditions"] = conclude(previous, _findings(obj, seen), now)
    status["subscriberUri"] = ""
    status |= seen.identity.fields()
    if seen.broker is not None:
        if isinstance(seen.subscriber, ResolvedAddress):
            status |= seen.subscriber.fields("subscriber")
        if isinstance(seen.dead_letter, ResolvedAddress):
            status |= seen.dead_letter.fields("deadLetterSink")
        elif isinstance(seen.dead_letter, Unresolved):
            status["deadLetterSinkUri"] = ""
    return status | delivery_fields(seen.delivery, seen.paused)


def _findings(obj: Obj, seen: TriggerObservation) -> list[ConditionFinding]:
    if seen.broker is None:
        missing = false(BROKER_READY, "BrokerDoesNotExist", f'Broker "{seen.broker_name}" does not exist')
        others = (
            SUBSCRIBER_RESOLVED,
            DEAD_LETTER_SINK_RESOLVED,
            DEPENDENCY_READY,
            SUBSCRIPTION_READY,
            OIDC_IDENTITY_CREATED,
        )
        return [missing, *(unknown(name) for name in others), *seen.secrets.findings(), *seen.warnings(obj)]
    return [
        _broker_finding(seen.broker),
        _subscriber_finding(seen.subscriber),
        dead_letter_finding(seen.dead_letter),
        seen.dependency,
        _subscription_finding(seen),
        seen.identity.finding(),
        *seen.secrets.findings(),
        *seen.warnings(obj),
    ]


def _broker_finding(broker: Mapping[str, Any]) -> ConditionFinding:
    """A Trigger of a Broker that is not ready is not ready either, whether the Broker failed or is on its way."""
    ready = find((broker.get("status") or {}).get("conditions"), READY)
    if ready is None:
        return false(BROKER_READY, "BrokerNotConfigured", "Broker has not yet been reconciled.")
    if ready["status"] == "True":
        return true(BROKER_READY)
    reason, message = ready.get("reason") or "BrokerNotReady", ready.get("message") or ""
    return false(BROKER_READY, reason, message or "The Broker is not ready.")


def _subscriber_finding(subscriber: ResolvedAddress | Unresolved) -> ConditionFinding:
    if isinstance(subscriber, Unresolved):
        return false(SUBSCRIBER_RESOLVED, "Unable to get the Subscriber's URI", subscriber.message)
    return true(SUBSCRIBER_RESOLVED)


def _subscription_finding(seen: TriggerObservation) -> ConditionFinding:
    if seen.left_out is not None:
        return false(SUBSCRIPTION_READY, "RouteTooLarge", seen.left_out)
    if seen.taken and seen.refused is not None:
        return false(SUBSCRIPTION_READY, "FilterNotRoutable", f"No events are routed by this Trigger: {seen.refused}")
    if seen.taken:
        return true(SUBSCRIPTION_READY)
    if seen.waiting:
        return unknown(SUBSCRIPTION_READY, "RouterWaits", seen.waiting)
    return unknown(SUBSCRIPTION_READY, "SubscriptionNotConfigured", "Subscription has not yet been reconciled.")
