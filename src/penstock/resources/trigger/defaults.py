"""Defaults of a Trigger. The Broker is not among them: a Trigger that names none is refused."""

from __future__ import annotations

from penstock.resources.admission import AdmissionContext, Obj, namespace_of
from penstock.resources.delivery.options import fill_delivery
from penstock.resources.destinations.destination import fill_destination
from penstock.resources.trigger.model import BROKER_LABEL


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
