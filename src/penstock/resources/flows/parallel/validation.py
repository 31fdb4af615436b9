"""What a Parallel must look like: at least one branch, each with a subscriber."""

from __future__ import annotations

from typing import Any

from penstock.resources.admission import AdmissionContext, Obj
from penstock.resources.channel.validation import check_template
from penstock.resources.delivery.options import check_delivery
from penstock.resources.destinations.destination import check_destination
from penstock.resources.field_errors import FieldErrors, invalid, missing, within
from penstock.resources.flows.field_values import go_destination, go_struct


def check(obj: Obj, old: Obj | None, ctx: AdmissionContext) -> FieldErrors:
    """Every complaint about the Parallel. Delivery options that cannot be used are refused here and not only by the
    branch's Subscription, where Knative's controller would meet them later."""
    spec = obj.get("spec") or {}
    branches = spec.get("branches") or []
    errors: FieldErrors = [] if branches else [missing("branches")]
    for index, branch in enumerate(branches):
        errors += [invalid(_shown(branch), f"branches.{name}[{index}]") for name in _refused(branch)]
        errors += within(f"branches[{index}].delivery", check_delivery(branch.get("delivery"), ctx))
    errors += check_template(spec.get("channelTemplate"))
    if spec.get("reply") is not None:
        errors += within("reply", check_destination(spec["reply"]))
    return within("spec", errors)


def _refused(branch: dict[str, Any]) -> list[str]:
    """The destinations of a branch that lead nowhere."""
    given = {"subscriber": {}, **{name: branch[name] for name in _DESTINATIONS if branch.get(name) is not None}}
    return [name for name in _DESTINATIONS if name in given and check_destination(given[name])]


def _shown(branch: dict[str, Any]) -> str:
    subscriber = go_destination(branch.get("subscriber") or {})
    return go_struct((branch.get("filter"), subscriber, branch.get("reply"), branch.get("delivery")))


_DESTINATIONS = ("filter", "subscriber", "reply")
