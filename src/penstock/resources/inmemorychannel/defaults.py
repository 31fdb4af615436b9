"""Defaults of an InMemoryChannel."""

from __future__ import annotations

from penstock.resources.admission import AdmissionContext, Obj, namespace_of
from penstock.resources.channel.defaults import mark_subscribable
from penstock.resources.delivery.options import fill_delivery


def fill(obj: Obj, ctx: AdmissionContext) -> None:
    """Fills in what was left out."""
    mark_subscribable(obj)
    fill_delivery(obj["spec"].get("delivery"), namespace_of(obj, ctx))
