"""What an ApiServerSource must look like."""

from __future__ import annotations

from penstock.resources import features, label_selector
from penstock.resources.admission import AdmissionContext, Obj
from penstock.resources.field_errors import FieldError, FieldErrors, invalid, missing, within
from penstock.resources.filters import check_filters
from penstock.resources.sources.apiserversource.model import REFERENCE, RESOURCE
from penstock.resources.sources.source_spec import check_source

FILTERS_FEATURE = "new-apiserversource-filters"


def check(obj: Obj, old: Obj | None, ctx: AdmissionContext) -> FieldErrors:
    """Every complaint about the ApiServerSource."""
    spec = obj.get("spec") or {}
    errors: FieldErrors = []
    if spec.get("mode") not in (REFERENCE, RESOURCE):
        errors.append(invalid(spec.get("mode") or "", "mode"))
    resources = spec.get("resources") or []
    if not resources:
        errors.append(missing("resources"))
    for number, one in enumerate(resources):
        errors += within(f"resources[{number}]", _check_kind(one) + _check_selector(one.get("selector"), "selector"))
    if spec.get("owner") is not None:
        errors += within("owner", _check_kind(spec["owner"]))
    errors += _check_selector(spec.get("namespaceSelector"), "namespaceSelector")
    return within("spec", errors + check_source(spec) + _check_filters(spec.get("filters"), ctx))


def _check_kind(reference: Obj) -> FieldErrors:
    errors: FieldErrors = []
    version = reference.get("apiVersion") or ""
    if version.count("/") > 1:
        errors.append(invalid(version, "apiVersion"))
    if not str(reference.get("kind") or "").strip():
        errors.append(missing("kind"))
    return errors


def _check_selector(selector: Obj | None, field: str) -> FieldErrors:
    problem = None if selector is None else label_selector.problem_of(selector)
    return [] if problem is None else [invalid(problem, field)]


def _check_filters(filters: list[Obj] | None, ctx: AdmissionContext) -> FieldErrors:
    if not filters:
        return []
    if not features.enabled(FILTERS_FEATURE, ctx):
        return [FieldError("Filters is not empty but the NewAPIServerFilters feature is disabled.")]
    return check_filters(None, filters, ctx)
