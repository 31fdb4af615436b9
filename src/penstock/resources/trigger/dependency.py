"""The condition `DependencyReady`: the object that the annotation `knative.dev/dependency` names must be ready."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.resources.conditions import READY, ConditionFinding, false, find, true, unknown
from penstock.resources.trigger.status import DEPENDENCY_READY


def no_dependency() -> ConditionFinding:
    """Nothing is waited for."""
    return true(DEPENDENCY_READY)


def unreadable_dependency(error: str) -> ConditionFinding:
    """The annotation does not name an object."""
    message = f"Unable to unmarshal objectReference from dependency annotation of trigger: {error}"
    return false(DEPENDENCY_READY, "ReferenceError", message)


def missing_dependency(error: str) -> ConditionFinding:
    """The object is not there."""
    return false(DEPENDENCY_READY, "DependencyDoesNotExist", f"Dependency does not exist: {error}")


def dependency_finding(dependency: Mapping[str, Any]) -> ConditionFinding:
    """How ready the object is."""
    status = dependency.get("status") or {}
    generation = (dependency.get("metadata") or {}).get("generation")
    observed = status.get("observedGeneration")
    if generation is not None and observed is not None and generation != observed:
        message = (
            f'The dependency\'s metadata.generation, "{generation}", is not equal to its '
            f'status.observedGeneration, "{observed}".'
        )
        return unknown(DEPENDENCY_READY, "GenerationNotEqual", message)
    ready = find(status.get("conditions"), READY)
    if ready is None:
        return unknown(DEPENDENCY_READY, "DependencyNotConfigured", "Dependency has not yet been reconciled.")
    return ConditionFinding(DEPENDENCY_READY, ready["status"], ready.get("reason") or "", ready.get("message") or "")
