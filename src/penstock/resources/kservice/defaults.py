"""Defaults of a serving Service: its traffic, and how its container is called."""

from __future__ import annotations

from penstock.resources.admission import AdmissionContext, Obj

CONTAINER = "user-container"
TRAFFIC = {"latestRevision": True, "percent": 100}


def fill(obj: Obj, ctx: AdmissionContext) -> None:
    """Fills in what was left out."""
    spec = obj["spec"]
    if not spec.get("traffic"):
        spec["traffic"] = [dict(TRAFFIC)]
    template = spec.get("template")
    pod = template.get("spec") if isinstance(template, dict) else None
    if not isinstance(pod, dict):
        return
    pod.setdefault("containerConcurrency", 0)
    pod.setdefault("timeoutSeconds", 300)
    containers = pod.get("containers") or []
    if isinstance(containers, list) and containers and isinstance(containers[0], dict) and len(containers) == 1:
        containers[0].setdefault("name", CONTAINER)
