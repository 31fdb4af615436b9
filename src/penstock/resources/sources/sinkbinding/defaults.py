"""Defaults of a SinkBinding: the namespaces of what it refers to."""

from __future__ import annotations

from penstock.resources.admission import AdmissionContext, Obj, namespace_of
from penstock.resources.destinations.destination import fill_destination
from penstock.resources.destinations.kreference import fill_namespace


def fill(obj: Obj, ctx: AdmissionContext) -> None:
    """Fills in what was left out."""
    namespace = namespace_of(obj, ctx)
    fill_namespace(obj["spec"].get("subject"), namespace)
    fill_destination(obj["spec"].get("sink"), namespace)
