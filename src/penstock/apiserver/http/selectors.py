"""Label and field selectors: parsed once per request, applied to every candidate.

`a=b`, `a==b`, `a!=b`, `a in (x,y)`, `a notin (x,y)`, `a`, `!a`; fields know only `=`, `==` and `!=`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.apiserver.errors import ApiError, bad_request

_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
_KEY = rf"(?:[a-z0-9](?:[a-z0-9.-]{{0,251}}[a-z0-9])?/)?{_NAME}"
_VALUE = rf"(?:{_NAME})?"
_SET = re.compile(rf"\s*({_KEY})\s+(in|notin)\s*\(([^()]*)\)\s*")
_EQUALS = re.compile(rf"\s*({_KEY})\s*(==|=|!=)\s*({_VALUE})\s*")
_EXISTS = re.compile(rf"\s*(!?)\s*({_KEY})\s*")
_VALUE_ONLY = re.compile(_VALUE)


@dataclass(frozen=True)
class Requirement:
    """One term of a label selector; `values` is empty for `exists` and `absent`."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels meet the term. A missing label meets `!=` and `notin`, as in Kubernetes."""
        value = labels.get(self.key)
        if self.operator == "exists":
            return value is not None
        if self.operator == "absent":
            return value is None
        if self.operator == "in":
            return value in self.values
        return value not in self.values


LabelSelector = tuple[Requirement, ...]


def parse_labels(text: str) -> LabelSelector:
    """The terms of a label selector; all must hold. Raises 400 if it cannot be parsed."""
    requirements: list[Requirement] = []
    position = 0
    if not text.strip():
        return ()
    while True:
        requirement, position = _term(text, position)
        requirements.append(requirement)
        if position == len(text):
            return tuple(requirements)
        if text[position] != ",":
            raise _unparsable(text)
        position += 1


def matches_labels(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    """Whether every term holds."""
    return all(requirement.matches(labels) for requirement in selector)


def _term(text: str, position: int) -> tuple[Requirement, int]:
    if found := _SET.match(text, position):
        key, operator, listed = found.groups()
        values = frozenset(value.strip() for value in listed.split(","))
        if not all(_VALUE_ONLY.fullmatch(value) for value in values):
            raise _unparsable(text)
        return Requirement(key, operator, values), found.end()
    if found := _EQUALS.match(text, position):
        key, operator, value = found.groups()
        return Requirement(key, "notin" if operator == "!=" else "in", frozenset({value})), found.end()
    if found := _EXISTS.match(text, position):
        return Requirement(found[2], "absent" if found[1] else "exists"), found.end()
    raise _unparsable(text)


def _unparsable(text: str) -> ApiError:
    return bad_request(f"unable to parse requirement: {text!r} is not a label selector")


@dataclass(frozen=True)
class FieldTerm:
    """One term of a field selector."""

    path: str
    value: str
    negated: bool = False


FieldSelector = tuple[FieldTerm, ...]
_FIELD = re.compile(r"\s*([A-Za-z0-9_.\[\]/-]+?)\s*(==|!=|=)((?:\\.|[^,\\])*)")


def parse_fields(text: str) -> FieldSelector:
    """The terms of a field selector; all must hold. Raises 400 if it cannot be parsed."""
    terms: list[FieldTerm] = []
    position = 0
    if not text.strip():
        return ()
    while True:
        found = _FIELD.match(text, position)
        if not found:
            raise bad_request(f"invalid selector: {text!r}; can't understand {text[position:]!r}")
        path, operator, value = found.groups()
        terms.append(FieldTerm(path, re.sub(r"\\(.)", r"\1", value.strip()), operator == "!="))
        position = found.end()
        if position == len(text):
            return tuple(terms)
        if text[position] != ",":
            raise bad_request(f"invalid selector: {text!r}")
        position += 1


def check_fields(selector: FieldSelector, known: tuple[str, ...]) -> None:
    """Raises 400 for a field that objects of the kind cannot be selected by."""
    for term in selector:
        if term.path not in ("metadata.name", "metadata.namespace", *known):
            raise bad_request(f"field label not supported: {term.path}")


def matches_fields(selector: FieldSelector, obj: Mapping[str, Any]) -> bool:
    """Whether every term holds for the object."""
    return all((_field(obj, term.path) == term.value) != term.negated for term in selector)


def _field(obj: Mapping[str, Any], path: str) -> str:
    value: Any = obj
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def exact_name(selector: FieldSelector) -> str | None:
    """The one name the selector leaves possible, if it names one."""
    return next((term.value for term in selector if term.path == "metadata.name" and not term.negated), None)
