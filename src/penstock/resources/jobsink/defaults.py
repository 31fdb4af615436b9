"""Defaults of a JobSink: its containers are told how they are run."""

from __future__ import annotations

from typing import Any

from penstock.resources.admission import AdmissionContext, Obj

EXECUTION_MODE = "K_EXECUTION_MODE"


def fill(obj: Obj, ctx: AdmissionContext) -> None:
    """Fills in what was left out."""
    fill_job(obj["spec"].get("job"))


def fill_job(job: dict[str, Any] | None) -> None:
    """Tells every container of the Job that it runs once for each event."""
    pod = pod_of(job)
    for container in [*(pod.get("containers") or []), *(pod.get("initContainers") or [])]:
        env = container.get("env") or []
        if all(entry.get("name") != EXECUTION_MODE for entry in env):
            container["env"] = [*env, {"name": EXECUTION_MODE, "value": "batch"}]


def pod_of(job: dict[str, Any] | None) -> dict[str, Any]:
    """The Pod of a Job; empty where there is none."""
    template = ((job or {}).get("spec") or {}).get("template") or {}
    return template.get("spec") or {}
