"""What a ContainerSource must look like."""

from __future__ import annotations

from penstock.resources.admission import AdmissionContext, Obj
from penstock.resources.field_errors import FieldErrors, missing, within
from penstock.resources.sources.source_spec import check_source


def check(obj: Obj, old: Obj | None, ctx: AdmissionContext) -> FieldErrors:
    """Every complaint about the ContainerSource."""
    spec = obj.get("spec") or {}
    containers = ((spec.get("template") or {}).get("spec") or {}).get("containers") or []
    errors: FieldErrors = [] if containers else [missing("containers")]
    for number, container in enumerate(containers):
        found = [missing(name) for name in ("name", "image") if not container.get(name)]
        errors += within(f"containers[{number}]", found)
    return within("spec", check_source(spec) + errors)
