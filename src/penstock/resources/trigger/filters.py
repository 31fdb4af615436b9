"""Checks of a Trigger's filters: attribute names, one dialect each, CESQL that parses."""

from __future__ import annotations

import re
from typing import Any

from penstock.resources.admission import AdmissionContext
from penstock.resources.field_errors import FieldError, FieldErrors, invalid, invalid_key, within

DIALECTS = ("exact", "prefix", "suffix", "all", "any", "not", "cesql")
MAX_DEPTH = 32

_ATTRIBUTE = re.compile(r"[a-z][a-z0-9]*", re.ASCII)
_ATTRIBUTE_RULE = "Attribute name must start with a letter and can only contain lowercase alphanumeric"


def check_attributes(attributes: dict[str, str] | None) -> FieldErrors:
    """Names that no CloudEvents attribute can have."""
    return [
        invalid_key(name, f"[{name}]", _ATTRIBUTE_RULE) for name in (attributes or {}) if not _ATTRIBUTE.fullmatch(name)
    ]


def check_filters(filters: list[dict[str, Any]] | None, ctx: AdmissionContext, depth: int = 0) -> FieldErrors:
    """Every complaint about a list of filters."""
    return [error for index, one in enumerate(filters or []) for error in within(f"[{index}]", _check(one, ctx, depth))]


def _check(one: dict[str, Any] | None, ctx: AdmissionContext, depth: int) -> FieldErrors:
    one = one or {}
    if depth > MAX_DEPTH:
        return [FieldError(f"filters are nested deeper than {MAX_DEPTH} levels", ("",))]
    errors: FieldErrors = []
    if sum(1 for dialect in DIALECTS if one.get(dialect)) > 1:
        errors.append(FieldError("multiple dialects found, filters can have only one dialect set", ("",)))
    unknown = sorted(set(one) - set(DIALECTS))
    if unknown:
        errors.append(FieldError("must not set the field(s)", tuple(unknown)))
    for dialect in ("exact", "prefix", "suffix"):
        errors += within(dialect, check_attributes(one.get(dialect)))
    for dialect in ("all", "any"):
        errors += within(dialect, check_filters(one.get(dialect), ctx, depth + 1))
    if one.get("not"):
        errors += within("not", _check(one["not"], ctx, depth + 1))
    return errors + within("cesql", _check_cesql(one.get("cesql"), ctx))


def _check_cesql(expression: str | None, ctx: AdmissionContext) -> FieldErrors:
    if not expression or ctx.check_cesql is None:
        return []
    try:
        ctx.check_cesql(expression)
    except ValueError as error:
        return [invalid(expression, "", str(error))]
    return []
