"""Defaults of an EventPolicy: whoever it names without a namespace is in its own."""

from __future__ import annotations

from penstock.resources.admission import AdmissionContext, Obj, namespace_of


def fill(obj: Obj, ctx: AdmissionContext) -> None:
    """Fills in what was left out."""
    for entry in obj["spec"].get("from") or ():
        reference = entry.get("ref")
        if reference is not None and not reference.get("namespace"):
            reference["namespace"] = namespace_of(obj, ctx)
