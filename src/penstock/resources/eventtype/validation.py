"""What an EventType must look like: it names a type; in v1beta3, the attributes that every event has."""

from __future__ import annotations

from penstock.resources.admission import AdmissionContext, Obj
from penstock.resources.eventtype.conversion import NEWEST
from penstock.resources.field_errors import FieldErrors, missing, within

ALWAYS = ("type", "source", "specversion", "id")


def check(obj: Obj, old: Obj | None, ctx: AdmissionContext) -> FieldErrors:
    """Every complaint about the EventType."""
    spec = obj.get("spec") or {}
    if obj.get("apiVersion") != NEWEST:
        return within("spec", [] if spec.get("type") else [missing("type")])
    named = {attribute.get("name") for attribute in spec.get("attributes") or []}
    absent = [name for name in ALWAYS if name not in named]
    return within("spec.attributes", [missing(*absent)] if absent else [])
