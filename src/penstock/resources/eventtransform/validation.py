"""What an EventTransform must look like: with an expression, and a reply only where there is a sink."""

from __future__ import annotations

from typing import Any

from penstock.resources.admission import AdmissionContext, Obj
from penstock.resources.destinations.destination import check_destination
from penstock.resources.field_errors import FieldError, FieldErrors, within

_NO_CERTIFICATES = (
    "CACerts for the sink is not supported for JSONata transformations, to propagate CA trust bundles use labeled "
    "ConfigMaps: https://knative.dev/docs/eventing/features/transport-encryption/"
    "#configure-additional-ca-trust-bundles"
)


def check(obj: Obj, old: Obj | None, ctx: AdmissionContext) -> FieldErrors:
    """Every complaint about the EventTransform. Whether an expression can be read, its Pod says, as with Knative."""
    spec = obj.get("spec") or {}
    sink, reply = spec.get("sink"), spec.get("reply")
    errors: FieldErrors = []
    if spec.get("jsonata") is None:
        errors.append(FieldError("expected exactly one, got neither", ("jsonata",)))
    if sink is not None:
        errors += within("sink", check_destination(sink))
        if sink.get("CACerts") is not None and spec.get("jsonata") is not None:
            errors.append(FieldError(_NO_CERTIFICATES, ("sink.CACerts",)))
    if reply is not None:
        errors += within("reply", _check_reply(reply, has_sink=sink is not None))
    return within("spec", errors)


def _check_reply(reply: dict[str, Any], *, has_sink: bool) -> FieldErrors:
    if not has_sink:
        return [FieldError("reply is set without spec.sink", ("",))]
    if reply.get("jsonata") is not None and reply.get("discard"):
        return [FieldError("expected exactly one, got both", ("discard", "jsonata"))]
    return []
