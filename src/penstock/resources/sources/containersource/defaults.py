"""Defaults of a ContainerSource: names of its containers."""

from __future__ import annotations

from penstock.resources.admission import AdmissionContext, Obj


def fill(obj: Obj, ctx: AdmissionContext) -> None:
    """Fills in what was left out."""
    name = (obj.get("metadata") or {}).get("name") or ""
    pod = (obj["spec"].get("template") or {}).get("spec") or {}
    for number, container in enumerate(pod.get("containers") or []):
        if isinstance(container, dict) and not container.get("name"):
            container["name"] = f"{name}-{number}"
