"""Defaults of an EventTransform: the namespace of its sink."""

from __future__ import annotations

from penstock.resources.admission import AdmissionContext, Obj, namespace_of
from penstock.resources.destinations.destination import fill_destination


def fill(obj: Obj, ctx: AdmissionContext) -> None:
    """Fills in what was left out."""
    fill_destination(obj["spec"].get("sink"), namespace_of(obj, ctx))
