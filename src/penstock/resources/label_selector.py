"""Label selectors: which labels they ask for, and what is wrong with them in Kubernetes' words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_WITH_VALUES, _WITHOUT_VALUES = ("In", "NotIn"), ("Exists", "DoesNotExist")


def matches(selector: Mapping[str, Any], labels: Mapping[str, Any] | None) -> bool:
    """Whether the labels are asked for; an empty selector asks for nothing, and every object has that."""
    labels = labels or {}
    plain = (selector.get("matchLabels") or {}).items()
    return all(labels.get(name) == value for name, value in plain) and all(
        _holds(term, labels) for term in selector.get("matchExpressions") or ()
    )


def problem_of(selector: Mapping[str, Any]) -> str | None:
    """What is wrong with the selector."""
    for term in selector.get("matchExpressions") or ():
        operator, values = term.get("operator"), term.get("values") or []
        if operator not in (*_WITH_VALUES, *_WITHOUT_VALUES):
            return f'"{operator or ""}" is not a valid label selector operator'
        if operator in _WITH_VALUES and not values:
            return "for 'in', 'notin' operators, values set can't be empty"
        if operator in _WITHOUT_VALUES and values:
            return "values set must be empty for exists and does not exist"
    return None


def _holds(term: Mapping[str, Any], labels: Mapping[str, Any]) -> bool:
    value, values = labels.get(str(term.get("key"))), term.get("values") or ()
    match term.get("operator"):
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    return False
