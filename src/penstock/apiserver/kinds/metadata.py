"""What metadata must look like: names, labels, annotations, owners."""

from __future__ import annotations

import re
import secrets
from typing import Any

from penstock.apiserver.documents import Obj
from penstock.apiserver.kinds.registry import ServedKind
from penstock.apiserver.kinds.schema import Complaint

MAX_NAME = 253
MAX_LABEL = 63
MAX_ANNOTATIONS_BYTES = 256 * 1024
_GENERATED = 5
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_LABEL_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_QUALIFIED = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")

_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', "
    "regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
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
    return prefix[: MAX_LABEL - _GENERATED] + "".join(secrets.choice(_ALPHABET) for _ in range(_GENERATED))


def check(metadata: Obj, kind: ServedKind) -> list[Complaint]:
    """What in the metadata is wrong; types have to be right."""
    complaints = _check_types(metadata)
    if complaints:
        return complaints
    complaints += _check_name(metadata.get("name", ""), kind)
    for key, value in (metadata.get("labels") or {}).items():
        complaints += _check_key("metadata.labels", key)
        if len(value) > MAX_LABEL:
            sentence = f'Invalid value: "{value[:80]}": must be no more than {MAX_LABEL} characters'
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
        sentence = f"Invalid value: {type(value).__name__!r}: must be {expected}"
        complaints.append((path, "FieldValueTypeInvalid", sentence))

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
    for field in ("name", "generateName", "namespace", "resourceVersion", "uid"):
        if metadata.get(field) is not None and not isinstance(metadata[field], str):
            refuse(f"metadata.{field}", "a string", metadata[field])
    for field, item in (("finalizers", str), ("ownerReferences", dict), ("managedFields", dict)):
        values = metadata.get(field)
        if values is not None and not (isinstance(values, list) and all(isinstance(one, item) for one in values)):
            refuse(f"metadata.{field}", f"a list of {'strings' if item is str else 'objects'}", values)
    for index, owner in enumerate(metadata.get("ownerReferences") or () if not complaints else ()):
        if not all(isinstance(owner.get(field, ""), str) for field in ("apiVersion", "kind", "name", "uid")):
            refuse(f"metadata.ownerReferences[{index}]", "made of strings", owner)
    return complaints


def _check_name(name: str, kind: ServedKind) -> list[Complaint]:
    def refuse(sentence: str) -> list[Complaint]:
        return [("metadata.name", "FieldValueInvalid", f'Invalid value: "{name[:300]}": {sentence}')]

    limit = MAX_LABEL if kind.name_rule == "label" else MAX_NAME
    if len(name) > limit:
        return refuse(f"must be no more than {limit} characters")
    if kind.name_rule == "path":
        return refuse("may not contain '/' or '%'") if name in (".", "..") or "/" in name or "%" in name else []
    if kind.name_rule == "label":
        return [] if _LABEL_NAME.fullmatch(name) else refuse(_LABEL_RULE)
    return [] if _SUBDOMAIN.fullmatch(name) else refuse(_SUBDOMAIN_RULE)


def _check_key(path: str, key: str) -> list[Complaint]:
    prefix, slash, name = key.rpartition("/")
    wrong = not _QUALIFIED.fullmatch(name) or len(name) > MAX_LABEL
    if slash and (not _SUBDOMAIN.fullmatch(prefix) or len(prefix) > MAX_NAME):
        wrong = True
    return [(path, "FieldValueInvalid", f'Invalid value: "{key[:300]}": {_QUALIFIED_RULE}')] if wrong else []
