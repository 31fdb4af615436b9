"""What a SinkBinding must look like. It binds objects of its own namespace only."""

from __future__ import annotations

import re

from penstock.resources import label_selector
from penstock.resources.admission import AdmissionContext, Obj, namespace_of
from penstock.resources.field_errors import FieldError, FieldErrors, invalid, missing, within
from penstock.resources.sources.source_spec import check_source

_QUALIFIED = re.compile(r"(?:[a-z0-9.-]+/)?(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")
_LONGEST_LABEL = 63

_NOT_QUALIFIED = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_NO_IDENTIFIER = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters "
    "or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')"
)
_NO_LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)


def check(obj: Obj, old: Obj | None, ctx: AdmissionContext) -> FieldErrors:
    """Every complaint about the SinkBinding."""
    spec = obj.get("spec") or {}
    subject = spec.get("subject") or {}
    errors = within("spec", within("subject", _check_subject(subject)) + check_source(spec))
    namespace = subject.get("namespace")
    if namespace and namespace != namespace_of(obj, ctx):
        errors.append(invalid(namespace, "spec.subject.namespace"))
    return errors


def _check_subject(subject: Obj) -> FieldErrors:
    errors: FieldErrors = []
    for field, pattern, complaint in (
        ("apiVersion", _QUALIFIED, _NOT_QUALIFIED),
        ("kind", _IDENTIFIER, _NO_IDENTIFIER),
        ("namespace", _LABEL, _NO_LABEL),
    ):
        text = subject.get(field) or ""
        if not text:
            errors.append(missing(field))
        elif pattern.fullmatch(text) is None:
            errors.append(invalid(complaint, field))
    return errors + _check_choice(subject.get("name") or "", subject.get("selector"))


def _check_choice(name: str, selector: Obj | None) -> FieldErrors:
    if name and selector is not None:
        return [FieldError("expected exactly one, got both", ("selector", "name"))]
    if selector is not None:
        problem = label_selector.problem_of(selector)
        return [] if problem is None else [invalid(problem, "selector")]
    if not name:
        return [FieldError("expected exactly one, got neither", ("selector", "name"))]
    if len(name) > _LONGEST_LABEL:
        return [invalid(f"must be no more than {_LONGEST_LABEL} characters", "name")]
    return [] if _LABEL.fullmatch(name) else [invalid(_NO_LABEL, "name")]
