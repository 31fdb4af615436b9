"""What a RequestReply must look like: with a Broker of its namespace, and attributes of its own."""

from __future__ import annotations

from typing import Any

from penstock.resources.admission import AdmissionContext, Obj
from penstock.resources.delivery.options import check_delivery
from penstock.resources.destinations.kreference import check_reference
from penstock.resources.durations import NotADuration, parse_duration
from penstock.resources.field_errors import FieldErrors, disallowed, invalid, missing, within

CORE = ("id", "source", "specversion", "type")


def check(obj: Obj, old: Obj | None, ctx: AdmissionContext) -> FieldErrors:
    """Every complaint about the RequestReply. `source` is refused as well, as the message says; Knative's code has a
    misspelling there."""
    spec = obj.get("spec") or {}
    errors = within("brokerRef", _check_broker(spec.get("brokerRef") or {}))
    errors += within("delivery", check_delivery(spec.get("delivery"), ctx))
    errors += _check_timeout(spec.get("timeout"))
    for name in ("correlationAttribute", "replyAttribute"):
        value, shown = spec.get(name) or "", name.lower()
        if not value or value in CORE:
            details = (
                f"{shown} must be non-empty and cannot be a core cloudevent attribute (id, type, specversion, source)"
            )
            errors.append(invalid(value, shown, details))
        elif not (value.isascii() and value.isalnum() and value == value.lower()):
            errors.append(invalid(value, shown, "expected lower-case letters and digits"))
    return within("spec", errors)


def _check_broker(reference: dict[str, Any]) -> FieldErrors:
    errors = check_reference(reference, None)
    kind = str(reference.get("kind") or "")
    if kind.lower() != "broker":
        errors.append(invalid(kind, "kind", "brokerRef kind must be Broker"))
    if reference.get("namespace"):
        errors.append(disallowed("namespace"))
    return errors


def _check_timeout(timeout: str | None) -> FieldErrors:
    if timeout is None:
        return [missing("timeout")]
    try:
        seconds = parse_duration(timeout)
    except NotADuration as error:
        return [invalid(timeout, "timeout", str(error))]
    return [] if seconds > 0 else [invalid(timeout, "timeout", "timeout must be a positive duration")]
