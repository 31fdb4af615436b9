"""What a Channel must look like. Its template and delivery options never change; its subscribers are not a user's."""

from __future__ import annotations

from typing import Any

from penstock.resources.admission import CONTROLLER_USER, AdmissionContext, Obj
from penstock.resources.delivery.options import check_delivery
from penstock.resources.field_errors import FieldErrors, disallowed, missing, within
from penstock.resources.immutable import changed


def check(obj: Obj, old: Obj | None, ctx: AdmissionContext) -> FieldErrors:
    """Every complaint about the Channel."""
    spec = obj.get("spec") or {}
    template = spec.get("channelTemplate")
    errors: FieldErrors = []
    errors += check_template(template)
    subscribers = spec.get("subscribers") or []
    known = ((old or {}).get("spec") or {}).get("subscribers") or []
    if subscribers and subscribers != known and ctx.user != CONTROLLER_USER:
        errors.append(disallowed("subscribable.subscribers"))
    errors += within("delivery", check_delivery(spec.get("delivery"), ctx))
    errors = within("spec", errors)
    if old is not None:
        errors += changed("Immutable fields changed", "v1.ChannelSpec", _fixed(old), _fixed(obj), "spec")
    return errors


def check_template(template: dict[str, Any] | None) -> FieldErrors:
    """What is wrong with the template that names the kind of channel."""
    if template is None:
        return [missing("channelTemplate")]
    absent = [missing(name) for name in ("kind", "apiVersion") if not template.get(name)]
    return within("channelTemplate", absent)


def _fixed(obj: Obj) -> dict[str, Any]:
    return {name: value for name, value in (obj.get("spec") or {}).items() if name != "subscribers"}
