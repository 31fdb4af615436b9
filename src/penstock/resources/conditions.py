"""Conditions, and how `Ready` summarises them, by Knative's rules.

Conditions that count towards Ready have no severity; if one of them is False, Ready is False, else if one is Unknown,
Ready is Unknown, and takes its reason and message from the one that changed last. Others carry a severity and do not
count. A condition that stays the same keeps its time; the list is sorted by type.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

READY = "Ready"

State = Literal["True", "False", "Unknown"]
Severity = Literal["", "Warning", "Info"]
Conditions = list[dict[str, Any]]


@dataclass(frozen=True)
class ConditionFinding:
    """The new state of one condition."""

    type: str
    status: State
    reason: str = ""
    message: str = ""
    severity: Severity = ""


def true(kind: str, reason: str = "", message: str = "") -> ConditionFinding:
    """A condition that is True."""
    return ConditionFinding(kind, "True", reason, message)


def false(kind: str, reason: str, message: str = "") -> ConditionFinding:
    """A condition that is False."""
    return ConditionFinding(kind, "False", reason, message)


def unknown(kind: str, reason: str = "", message: str = "") -> ConditionFinding:
    """A condition that is Unknown."""
    return ConditionFinding(kind, "Unknown", reason, message)


def conclude(
    previous: Iterable[Mapping[str, Any]], findings: Sequence[ConditionFinding], now: str, sum_type: str = READY
) -> Conditions:
    """The conditions after `findings`, with Ready, or what else summarises them: `Succeeded` for what runs once.

    Of those that changed at the same time, the first one counts.
    """
    before = {condition["type"]: condition for condition in previous}
    written = [_write(finding, before.get(finding.type), now) for finding in findings]
    ready = _write(_sum_up(findings, written, sum_type), before.get(sum_type), now)
    return sorted([*written, ready], key=lambda condition: str(condition["type"]))


def find(conditions: Iterable[Mapping[str, Any]] | None, kind: str) -> Mapping[str, Any] | None:
    """The condition of that type."""
    return next((condition for condition in conditions or () if condition.get("type") == kind), None)


def is_true(obj: Mapping[str, Any], kind: str) -> bool:
    """Whether the object's status has this condition, and it is True."""
    return (find((obj.get("status") or {}).get("conditions"), kind) or {}).get("status") == "True"


def is_ready(obj: Mapping[str, Any]) -> bool:
    """Whether the object's Ready is True for its present generation."""
    generation = (obj.get("metadata") or {}).get("generation")
    observed = (obj.get("status") or {}).get("observedGeneration")
    return is_true(obj, READY) and (generation is None or observed is None or observed == generation)


def _sum_up(findings: Sequence[ConditionFinding], written: Conditions, sum_type: str) -> ConditionFinding:
    counting = [(f, c) for f, c in zip(findings, written, strict=True) if not f.severity]
    newest_first = sorted(counting, key=lambda pair: str(pair[1].get("lastTransitionTime", "")), reverse=True)
    for state in ("False", "Unknown"):
        for finding, _ in newest_first:
            if finding.status == state:
                return ConditionFinding(sum_type, finding.status, finding.reason, finding.message)
    return ConditionFinding(sum_type, "True")


def _write(finding: ConditionFinding, before: Mapping[str, Any] | None, now: str) -> dict[str, Any]:
    condition = {"type": finding.type, "status": finding.status}
    for name in ("severity", "reason", "message"):
        if getattr(finding, name):
            condition[name] = getattr(finding, name)
    if before is not None:
        kept = {**condition, "lastTransitionTime": before.get("lastTransitionTime")}
        if kept == dict(before):
            return kept
    return {**condition, "lastTransitionTime": now}
