"""What a serving Service must look like. What would need several revisions is refused, never passed over."""

from __future__ import annotations

from typing import Any

from penstock.resources.admission import AdmissionContext, Obj
from penstock.resources.field_errors import FieldError, FieldErrors, disallowed, invalid, missing, within
from penstock.resources.kservice.defaults import TRAFFIC

WEBHOOK = "validation.webhook.serving.knative.dev"

_ONE_REVISION = "only the latest revision is served here, and it gets all traffic"


def check(obj: Obj, old: Obj | None, ctx: AdmissionContext) -> FieldErrors:
    """Every complaint about the Service."""
    spec = obj.get("spec") or {}
    template = spec.get("template")
    if not template:
        return within("spec", [missing("template")])
    name = (template.get("metadata") or {}).get("name")
    errors = within("template", _check_template(template))
    if name and not name.startswith(f"{(obj.get('metadata') or {}).get('name')}-"):
        prefix = f'"{name}" must have prefix "{(obj.get("metadata") or {}).get("name")}-"'
        errors.append(invalid(prefix, "template.metadata.name"))
    if [_plain(entry) for entry in spec.get("traffic") or [TRAFFIC]] != [TRAFFIC]:
        errors.append(disallowed("traffic", details=_ONE_REVISION))
    return within("spec", errors)


def _plain(entry: dict[str, Any]) -> dict[str, Any]:
    """The entry, where `latestRevision` is left out as if nothing else was named."""
    latest = entry.get("latestRevision", not entry.get("revisionName"))
    return {**entry, "latestRevision": latest}


def _check_template(template: dict[str, Any]) -> FieldErrors:
    pod = template.get("spec") or {}
    containers = pod.get("containers") or []
    errors: FieldErrors = [] if containers else [missing("containers")]
    for index, container in enumerate(containers):
        errors += within(f"containers[{index}]", _check_container(container))
    ports = [port for container in containers for port in container.get("ports") or []]
    if len(containers) > 1 and len(ports) != 1:
        count = "more than one" if ports else "expected exactly one, got neither"
        errors.append(FieldError(count + (" container port is set" if ports else ""), ("containers[*].ports",)))
    seconds = pod.get("timeoutSeconds")
    if seconds is not None and seconds < 0:
        errors.append(FieldError(f"expected 0 <= {seconds} <= 600", ("timeoutSeconds",)))
    return within("spec", errors)


def _check_container(container: dict[str, Any]) -> FieldErrors:
    errors: FieldErrors = [] if container.get("image") else [missing("image")]
    ports = container.get("ports") or []
    if len(ports) > 1:
        details = "Only a single port is allowed across all containers"
        errors.append(FieldError("More than one container port is set", ("ports",), details))
    for name in ("lifecycle", "stdin", "tty"):
        if container.get(name):
            errors.append(disallowed(name))
    return errors
