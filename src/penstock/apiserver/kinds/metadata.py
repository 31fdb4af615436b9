"""Validation of metadata: names, labels, annotations, owners."""

from __future__ import annotations

import re
import secrets
from typing import Any

from penstock.apiserver.kinds.registry import ServedKind
from penstock.apiserver.kinds.schema import Complaint
from penstock.kube.kinds import Obj
from penstock.resources.pod_rules import (
    LABEL,
    LABEL_RULE,
    LONGEST_LABEL,
    LONGEST_SUBDOMAIN,
    SUBDOMAIN,
    SUBDOMAIN_RULE,
)
from penstock.runtime.times import is_rfc3339

MAX_ANNOTATIONS_BYTES = 256 * 1024
_GENERATED = 5
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_QUALIFIED = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")

_QUALIFIED_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', "
    "regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', "
    "regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def generate_name(prefix: str) -> str:
    """The prefix with a random ending, short enough for a label."""
    return prefix[: LONGEST_LABEL - _GENERATED] + "".join(secrets.choice(_ALPHABET) for _ in range(_GENERATED))


def check(metadata: Obj, kind: ServedKind) -> list[Complaint]:
    """The complaints about metadata."""
    complaints = _check_types(metadata)
    if complaints:
        return complaints
    complaints += _check_name(metadata.get("name", ""), kind)
    for key, value in (metadata.get("labels") or {}).items():
        complaints += _check_key("metadata.labels", key)
        if len(value) > LONGEST_LABEL:
            sentence = f'Invalid value: "{value[:80]}": must be no more than {LONGEST_LABEL} characters'
            complaints.append(("metadata.labels", "FieldValueInvalid", sentence))
        elif value and not _QUALIFIED.fullmatch(value):
            complaints.append(("metadata.labels", "FieldValueInvalid", f'Invalid value: "{value}": {_VALUE_RULE}'))
    annotations = metadata.get("annotations") or {}
    for key in annotations:
        complaints += _check_key("metadata.annotations", key.lower())
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > MAX_ANNOTATIONS_BYTES:
        sentence = f"Too long: may not be more than {MAX_ANNOTATIONS_BYTES} bytes"
        complaints.append(("metadata.annotations", "FieldValueTooLong", sentence))
    for index, owner in enumerate(metadata.get("ownerReferences") or ()):
        complaints.extend(
            (f"metadata.ownerReferences[{index}].{field}", "FieldValueInvalid", "must not be empty")
            for field in ("apiVersion", "kind", "name", "uid")
            if not owner.get(field)
        )
    return complaints


def _check_types(metadata: Obj) -> list[Complaint]:
    complaints: list[Complaint] = []

    def refuse(path: str, expected: str, value: Any) -> None:
        complaints.append(_wrong_type(path, expected, value))

    for field in ("labels", "annotations"):
        values = metadata.get(field)
        if values is None:
            continue
        if not isinstance(values, dict):
            refuse(f"metadata.{field}", "an object of strings", values)
            continue
        for key, value in values.items():
            if not isinstance(value, str):
                refuse(f"metadata.{field}.{key}", "a string", value)
    for field in ("name", "generateName", "namespace", "resourceVersion", "uid", "selfLink"):
        if metadata.get(field) is not None and not isinstance(metadata[field], str):
            refuse(f"metadata.{field}", "a string", metadata[field])
    for field, item in (("finalizers", str), ("ownerReferences", dict), ("managedFields", dict)):
        values = metadata.get(field)
        if values is not None and not (isinstance(values, list) and all(isinstance(one, item) for one in values)):
            refuse(f"metadata.{field}", f"a list of {'strings' if item is str else 'objects'}", values)
    return complaints or _check_items(metadata)


def _check_items(metadata: Obj) -> list[Complaint]:
    """The complaints about items of lists. One invalid item would keep typed clients from reading the kind."""
    complaints: list[Complaint] = []
    for index, owner in enumerate(metadata.get("ownerReferences") or ()):
        path = f"metadata.ownerReferences[{index}]"
        if not all(isinstance(owner.get(field, ""), str) for field in ("apiVersion", "kind", "name", "uid")):
            complaints.append(_wrong_type(path, "made of strings", owner))
        complaints += [
            _wrong_type(f"{path}.{field}", "a boolean", owner[field])
            for field in ("controller", "blockOwnerDeletion")
            if not isinstance(owner.get(field), bool | None)
        ]
    for index, entry in enumerate(metadata.get("managedFields") or ()):
        moment = entry.get("time")
        if moment is not None and not (isinstance(moment, str) and is_rfc3339(moment)):
            complaints.append(_wrong_type(f"metadata.managedFields[{index}].time", "a moment as in RFC 3339", moment))
    return complaints


def _wrong_type(path: str, expected: str, value: Any) -> Complaint:
    return path, "FieldValueTypeInvalid", f"Invalid value: {type(value).__name__!r}: must be {expected}"


def _check_name(name: str, kind: ServedKind) -> list[Complaint]:
    def refuse(sentence: str) -> list[Complaint]:
        return [("metadata.name", "FieldValueInvalid", f'Invalid value: "{name[:300]}": {sentence}')]

    limit = LONGEST_LABEL if kind.name_rule == "label" else LONGEST_SUBDOMAIN
    if len(name) > limit:
        return refuse(f"must be no more than {limit} characters")
    if kind.name_rule == "path":
        return refuse("may not contain '/' or '%'") if name in (".", "..") or "/" in name or "%" in name else []
    if kind.name_rule == "label":
        return [] if LABEL.fullmatch(name) else refuse(LABEL_RULE)
    return [] if SUBDOMAIN.fullmatch(name) else refuse(SUBDOMAIN_RULE)


def _check_key(path: str, key: str) -> list[Complaint]:
    prefix, slash, name = key.rpartition("/")
    wrong = not _QUALIFIED.fullmatch(name) or len(name) > LONGEST_LABEL
    if slash and (not SUBDOMAIN.fullmatch(prefix) or len(prefix) > LONGEST_SUBDOMAIN):
        wrong = True
    return [(path, "FieldValueInvalid", f'Invalid value: "{key[:300]}": {_QUALIFIED_RULE}')] if wrong else []
