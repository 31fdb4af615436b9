"""Defaults of a RequestReply: how long it waits, and by which attributes it knows a reply."""

from __future__ import annotations

from penstock.resources import features
from penstock.resources.admission import AdmissionContext, Obj

TIMEOUT, TIMEOUT_FEATURE = "PT30S", "requestreply-default-timeout"
BROKER_LABEL = "eventing.knative.dev/broker"


def fill(obj: Obj, ctx: AdmissionContext) -> None:
    """Fills in what was left out."""
    spec = obj["spec"]
    if not spec.get("timeout"):
        spec["timeout"] = ctx.configmaps.get(features.CONFIG_MAP, {}).get(TIMEOUT_FEATURE) or TIMEOUT
    spec["correlationAttribute"] = spec.get("correlationAttribute") or "correlationid"
    spec["replyAttribute"] = spec.get("replyAttribute") or "replyid"
    metadata = obj.setdefault("metadata", {})
    metadata["labels"] = {**(metadata.get("labels") or {}), BROKER_LABEL: (spec.get("brokerRef") or {}).get("name", "")}
