"""Defaults of a Replay: what it refers to is in its namespace, and of the version that its kind has."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.resources.admission import AdmissionContext, Obj, namespace_of
from penstock.resources.delivery.options import fill_delivery
from penstock.resources.destinations.destination import fill_destination
from penstock.resources.destinations.kreference import fill_namespace
from penstock.resources.replay.model import SOURCES, TARGETS


def fill(obj: Obj, ctx: AdmissionContext) -> None:
    """Fills in what was left out."""
    namespace, spec = namespace_of(obj, ctx), obj["spec"]
    for name, versions in (("target", TARGETS), ("source", SOURCES)):
        _fill_reference(spec.get(name), versions, namespace)
    fill_destination(spec.get("sink"), namespace)
    fill_delivery(spec.get("delivery"), namespace)


def _fill_reference(ref: object, versions: Mapping[str, str], namespace: str) -> None:
    if isinstance(ref, dict) and ref:
        fill_namespace(ref, namespace)
        if not ref.get("apiVersion") and ref.get("kind") in versions:
            ref["apiVersion"] = versions[str(ref["kind"])]
