"""Defaults of an ApiServerSource: its mode and its ServiceAccount."""

from __future__ import annotations

from penstock.resources.admission import AdmissionContext, Obj
from penstock.resources.sources.apiserversource.model import REFERENCE


def fill(obj: Obj, ctx: AdmissionContext) -> None:
    """Fills in what was left out."""
    spec = obj["spec"]
    spec["mode"] = spec.get("mode") or REFERENCE
    spec["serviceAccountName"] = spec.get("serviceAccountName") or "default"
