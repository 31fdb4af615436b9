"""What a Trigger must look like. Its Broker never changes; everything else may."""

from __future__ import annotations

import json

from penstock.resources import features
from penstock.resources.admission import AdmissionContext, Obj, annotations_of, namespace_of
from penstock.resources.delivery.annotations import check_options
from penstock.resources.delivery.options import check_delivery
from penstock.resources.destinations.destination import check_destination
from penstock.resources.destinations.kreference import check_reference
from penstock.resources.field_errors import FieldError, FieldErrors, disallowed, missing, within
from penstock.resources.filters import check_filters
from penstock.resources.immutable import changed
from penstock.resources.trigger.model import DEPENDENCY_ANNOTATION, INJECTION_ANNOTATION


def check(obj: Obj, old: Obj | None, ctx: AdmissionContext) -> FieldErrors:
    """Every complaint about the Trigger."""
    spec = obj.get("spec") or {}
    errors = _check_broker(spec, ctx)
    errors += check_filters((spec.get("filter") or {}).get("attributes"), spec.get("filters"), ctx)
    errors += within("subscriber", check_destination(spec.get("subscriber") or {}))
    errors += within("delivery", check_delivery(spec.get("delivery"), ctx))
    errors = within("spec", errors)
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
