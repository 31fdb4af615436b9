"""What a Broker must look like, and what of it never changes: everything but its delivery options."""

from __future__ import annotations

from typing import Any

from penstock.resources.admission import AdmissionContext, Obj, annotations_of
from penstock.resources.broker.model import CLASS_ANNOTATION
from penstock.resources.delivery.options import check_delivery
from penstock.resources.destinations.kreference import check_reference
from penstock.resources.field_errors import FieldErrors, within
from penstock.resources.immutable import changed


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
