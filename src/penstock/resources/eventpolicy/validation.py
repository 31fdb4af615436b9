"""What an EventPolicy must look like. It is refused where nothing would enforce it."""

from __future__ import annotations

from typing import Any

from penstock.resources import features
from penstock.resources.admission import AdmissionContext, Obj
from penstock.resources.field_errors import FieldError, FieldErrors, invalid, missing, within
from penstock.resources.filters import check_filters


def check(obj: Obj, old: Obj | None, ctx: AdmissionContext) -> FieldErrors:
    """Every complaint about the EventPolicy."""
    spec = obj.get("spec") or {}
    changes_spec = old is None or (old.get("spec") or {}) != spec
    if changes_spec and not features.enabled(features.OIDC, ctx):
        return [FieldError("oidc-authentication feature not enabled", ("",))]
    errors: FieldErrors = []
    for number, entry in enumerate(spec.get("from") or ()):
        errors += within(f"from[{number}]", _check_from(entry))
    for number, entry in enumerate(spec.get("to") or ()):
        errors += within(f"to[{number}]", _check_to(entry))
    errors += check_filters(None, spec.get("filters"), ctx)
    return within("spec", errors)


def _check_from(entry: dict[str, Any]) -> FieldErrors:
    reference, subject = entry.get("ref"), entry.get("sub")
    errors: FieldErrors = []
    if reference is None and not subject:
        errors.append(FieldError("expected exactly one, got neither", ("ref", "sub")))
    if reference is not None and subject is not None:
        errors.append(FieldError("expected exactly one, got both", ("ref", "sub")))
    if reference is not None:
        errors += within("ref", _check_reference(reference))
    if subject and "*" in subject[:-1]:
        errors.append(invalid(subject, "sub", "'*' is only allowed as suffix"))
    return errors


def _check_to(entry: dict[str, Any]) -> FieldErrors:
    reference, selector = entry.get("ref"), entry.get("selector")
    errors: FieldErrors = []
    if reference is None and selector is None:
        errors.append(FieldError("expected exactly one, got neither", ("ref", "selector")))
    if reference is not None and selector is not None:
        errors.append(FieldError("expected exactly one, got both", ("ref", "selector")))
    if reference is not None:
        errors += within("ref", _check_reference(reference))
    return errors


def _check_reference(reference: dict[str, Any]) -> FieldErrors:
    return [missing(name) for name in ("kind", "apiVersion", "name") if not reference.get(name)]
