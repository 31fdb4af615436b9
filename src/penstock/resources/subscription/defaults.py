"""Defaults of a Subscription: the namespaces of what it refers to."""

from __future__ import annotations

from penstock.resources.admission import AdmissionContext, Obj, namespace_of
from penstock.resources.delivery.options import fill_delivery
from penstock.resources.destinations.destination import fill_destination


def fill(obj: Obj, ctx: AdmissionContext) -> None:
    """Fills in what was left out."""
    namespace = namespace_of(obj, ctx)
    spec = obj["spec"]
    fill_destination(spec.get("subscriber"), namespace)
    fill_destination(spec.get("reply"), namespace)
    fill_delivery(spec.get("delivery"), namespace)
