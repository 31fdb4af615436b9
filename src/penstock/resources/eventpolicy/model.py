"""An EventPolicy as the controllers see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.resources import label_selector
from penstock.resources.admission import Obj
from penstock.resources.conditions import READY, find

GROUP, KIND, PLURAL = "eventing.knative.dev", "EventPolicy", "eventpolicies"


@dataclass(frozen=True)
class EventPolicy:
    """Who may send what to whom."""

    namespace: str
    name: str
    to: tuple[Mapping[str, Any], ...]
    """Empty: everything in its namespace."""
    filters: list[dict[str, Any]]
    subjects: tuple[str, ...]
    """Who is meant, as far as the status knows."""
    is_ready: bool

    @classmethod
    def read(cls, obj: Obj) -> EventPolicy:
        """The policy behind a stored object. What its status says of an earlier spec does not count."""
        metadata, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
        ready = find(status.get("conditions"), READY) or {}
        is_current = status.get("observedGeneration", 0) == metadata.get("generation", 0)
        return cls(
            str(metadata.get("namespace") or ""),
            str(metadata["name"]),
            tuple(spec.get("to") or ()),
            list(spec.get("filters") or []),
            tuple(status.get("from") or ()),
            is_current and ready.get("status") == "True",
        )

    def applies_to(self, group: str, kind: str, name: str, labels: Mapping[str, str]) -> bool:
        """Whether it is for this object of its namespace."""
        return not self.to or any(_names(entry, group, kind, name, labels) for entry in self.to)


def _names(entry: Mapping[str, Any], group: str, kind: str, name: str, labels: Mapping[str, str]) -> bool:
    reference, selector = entry.get("ref"), entry.get("selector")
    if reference:
        return _is_kind(reference, group, kind) and str(reference.get("name") or "").lower() == name.lower()
    if selector:
        sound = label_selector.problem_of(selector) is None
        return _is_kind(selector, group, kind) and sound and label_selector.matches(selector, labels)
    return False


def _is_kind(named: Mapping[str, Any], group: str, kind: str) -> bool:
    theirs = str(named.get("apiVersion") or "").rpartition("/")[0]
    return (theirs.lower(), str(named.get("kind") or "").lower()) == (group.lower(), kind.lower())
