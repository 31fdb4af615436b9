"""Defaults of an EventType: the namespace of what it refers to."""

from __future__ import annotations

from penstock.resources.admission import AdmissionContext, Obj, namespace_of
from penstock.resources.destinations.kreference import fill_namespace


def fill(obj: Obj, ctx: AdmissionContext) -> None:
    """Fills in what was left out."""
    fill_namespace(obj["spec"].get("reference"), namespace_of(obj, ctx))
