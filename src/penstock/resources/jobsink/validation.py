"""What a JobSink must look like: with a Job that Kubernetes would take, as far as that can be told without asking."""

from __future__ import annotations

from penstock.resources.admission import AdmissionContext, Obj
from penstock.resources.field_errors import FieldError, FieldErrors, within
from penstock.resources.jobsink.defaults import pod_of


def check(obj: Obj, old: Obj | None, ctx: AdmissionContext) -> FieldErrors:
    """Every complaint about the JobSink."""
    job = (obj.get("spec") or {}).get("job")
    if job is None:
        return within("spec", [FieldError("expected exactly one, got neither", ("job",))])
    pod = pod_of(job)
    complaints = []
    if not pod.get("containers"):
        complaints.append("spec.template.spec.containers: Required value")
    complaints += [
        f"spec.template.spec.containers[{index}].{name}: Required value"
        for index, container in enumerate(pod.get("containers") or [])
        for name in ("name", "image")
        if not container.get(name)
    ]
    if pod.get("restartPolicy") not in ("Never", "OnFailure"):
        complaints.append(_restart_complaint(pod.get("restartPolicy")))
    if not complaints:
        return []
    text = complaints[0] if len(complaints) == 1 else f"[{', '.join(complaints)}]"
    name = (obj.get("metadata") or {}).get("name", "")
    return within("spec", [FieldError(f'Job.batch "{name}" is invalid: {text}', ("job",))])


def _restart_complaint(given: object) -> str:
    path = "spec.template.spec.restartPolicy"
    if not given:
        return f'{path}: Required value: valid values: "OnFailure", "Never"'
    return f'{path}: Unsupported value: "{given}": supported values: "OnFailure", "Never"'
