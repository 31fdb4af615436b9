"""What a Sequence must look like: at least one step, each with a destination."""

from __future__ import annotations

from typing import Any

from penstock.resources.admission import AdmissionContext, Obj
from penstock.resources.channel.validation import check_template
from penstock.resources.delivery.options import check_delivery
from penstock.resources.destinations.destination import check_destination
from penstock.resources.field_errors import FieldErrors, invalid, missing, within
from penstock.resources.flows.field_values import go_destination, go_struct


def check(obj: Obj, old: Obj | None, ctx: AdmissionContext) -> FieldErrors:
    """Every complaint about the Sequence."""
    spec = obj.get("spec") or {}
    steps = spec.get("steps") or []
    errors: FieldErrors = [] if steps else [missing("steps")]
    for index, step in enumerate(steps):
        if check_destination(step) or check_delivery(step.get("delivery"), ctx):
            errors.append(invalid(_shown(step), f"steps[{index}]"))
    errors += check_template(spec.get("channelTemplate"))
    if spec.get("reply") is not None:
        errors += within("reply", check_destination(spec["reply"]))
    return within("spec", errors)


def _shown(step: dict[str, Any]) -> str:
    return go_struct((go_destination(step), step.get("delivery")))
