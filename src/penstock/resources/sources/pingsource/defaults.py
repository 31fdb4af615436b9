"""Defaults of a PingSource: it fires every minute."""

from __future__ import annotations

from penstock.resources.admission import AdmissionContext, Obj
from penstock.resources.sources.pingsource.model import EVERY_MINUTE


def fill(obj: Obj, ctx: AdmissionContext) -> None:
    """Fills in what was left out."""
    if not obj["spec"].get("schedule"):
        obj["spec"]["schedule"] = EVERY_MINUTE
