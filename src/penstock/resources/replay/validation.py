"""What a Replay must look like. Once it has begun, what it was asked for never changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.resources.admission import AdmissionContext, Obj, namespace_of
from penstock.resources.delivery.options import check_delivery
from penstock.resources.destinations.destination import check_destination, is_empty
from penstock.resources.destinations.kreference import check_reference
from penstock.resources.field_errors import FieldError, FieldErrors, disallowed, invalid, missing, within
from penstock.resources.filters import check_filters
from penstock.resources.immutable import changed
from penstock.resources.moments import EXPECTED, moment_of
from penstock.resources.replay.model import SOURCES, TARGETS

_LONG_AGO = 1e10
"""Stands for when the Replay is made, where only the order of two moments matters and both are durations."""


def check(obj: Obj, old: Obj | None, ctx: AdmissionContext) -> FieldErrors:
    """Every complaint about the Replay."""
    spec = obj.get("spec") or {}
    namespace = namespace_of(obj, ctx)
    errors = _check_ends(spec, namespace, ctx) + _check_window(spec) + _check_dead_letters(spec)
    errors += check_filters(None, spec.get("filters"), ctx)
    rate = spec.get("rate")
    if rate is not None and rate <= 0:
        errors.append(invalid(rate, "rate", "expected a number greater than 0"))
    errors = within("spec", errors)
    if old is not None and (old.get("status") or {}).get("startTime"):
        before = old.get("spec") or {}
        errors += changed("Immutable fields changed", "v1alpha1.ReplaySpec", before, spec, "spec")
    return errors


def _check_ends(spec: Obj, namespace: str, ctx: AdmissionContext) -> FieldErrors:
    """Where events come from, and where they go."""
    target, source = spec.get("target"), spec.get("source")
    if bool(target) == bool(source):
        got = "both" if target else "neither"
        return [FieldError(f"expected exactly one, got {got}", ("source", "target"))]
    if target:
        errors = _check_kind("target", target, TARGETS, namespace)
        return errors + [disallowed(name) for name in ("sink", "delivery") if spec.get(name)]
    errors = _check_kind("source", source or {}, SOURCES, namespace)
    sink = spec.get("sink") or {}
    errors += [missing("sink")] if is_empty(sink) else within("sink", check_destination(sink))
    return errors + within("delivery", check_delivery(spec.get("delivery"), ctx))


def _check_kind(field: str, ref: dict[str, Any], versions: Mapping[str, str], namespace: str) -> FieldErrors:
    errors = check_reference(ref, namespace)
    kind, version = ref.get("kind"), ref.get("apiVersion")
    if kind and kind not in versions:
        errors = [invalid(kind, "kind", f"expected one of {', '.join(versions)}")]
    elif kind and version and version != versions[kind]:
        errors.append(invalid(version, "apiVersion", f"expected {versions[kind]}"))
    return within(field, errors)


def _check_window(spec: Obj) -> FieldErrors:
    moments: dict[str, float] = {}
    errors: FieldErrors = []
    for name in ("from", "to"):
        given = spec.get(name)
        if not given:
            continue
        moment = moment_of(given, _LONG_AGO)
        if moment is None:
            errors.append(invalid(given, name, EXPECTED))
        else:
            moments[name] = moment
    alike = len({str(spec.get(name) or "").startswith("P") for name in moments}) == 1
    if len(moments) == 2 and alike and moments["from"] >= moments["to"]:
        errors.append(invalid(spec["to"], "to", f"expected a later time than from: {spec['from']}"))
    return errors


def _check_dead_letters(spec: Obj) -> FieldErrors:
    errors: FieldErrors = []
    if spec.get("deadLetters") and not spec.get("target"):
        errors.append(disallowed("deadLetters", details="only a target gives events up"))
    if spec.get("reason") and not spec.get("deadLetters"):
        errors.append(disallowed("reason", details="it selects among deadLetters"))
    return errors
