"""The status of a Replay: how far it has got, and how it went."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.resources.admission import Obj
from penstock.resources.conditions import ConditionFinding, conclude, false, find, true, unknown
from penstock.resources.destinations.resolution import EVENTS_RETAINED
from penstock.resources.metadata import ObjectIdentity

SUCCEEDED = "Succeeded"
TARGET_RESOLVED, COMPLETED, DELIVERED = "TargetResolved", "Completed", "Delivered"


@dataclass(frozen=True)
class PartitionProgress:
    """How far it has got in one partition of the log."""

    partition: int
    begin: int
    end: int
    position: int
    counted: int = 0
    failed: int = 0
    under_way: int = 0
    missing: int = 0
    finished: bool = False


@dataclass(frozen=True)
class ReplayFailure:
    """Why it can never be done."""

    reason: str
    message: str


@dataclass(frozen=True)
class ReplayObservation:
    """What the controller has found out."""

    unresolved: ReplayFailure | None = None
    """Why it cannot begin, or go on, for now."""
    failure: ReplayFailure | None = None
    partitions: Sequence[PartitionProgress] = ()
    """Empty until it has begun."""
    dry_run: bool = False
    begun: bool = False
    not_kept: str = ""
    """What is no longer kept of what was asked for."""

    @property
    def complete(self) -> bool:
        """Whether everything has been looked at and delivered, or given up."""
        return bool(self.partitions) and all(one.finished for one in self.partitions)


def status_of(obj: Obj, seen: ReplayObservation, now: str) -> dict[str, Any]:
    """The Replay's status."""
    before = obj.get("status") or {}
    previous = before.get("conditions") or []
    counts = _counts(seen) if seen.partitions else _kept(before)
    findings = [_target(seen), _completed(seen), _delivered(seen, counts), *_retained(seen, counts, previous)]
    status: dict[str, Any] = {
        "observedGeneration": ObjectIdentity.read(obj).generation,
        "conditions": conclude(previous, findings, now, SUCCEEDED),
        **counts,
    }
    if before.get("startTime") or seen.begun:
        status["startTime"] = before.get("startTime") or now
    if seen.complete or seen.failure is not None:
        status["completionTime"] = before.get("completionTime") or now
    return status


def is_over(obj: Obj) -> bool:
    """Whether it has ended, one way or another."""
    return bool((obj.get("status") or {}).get("completionTime"))


def has_begun(obj: Obj) -> bool:
    """Whether it has begun."""
    return bool((obj.get("status") or {}).get("startTime"))


def _target(seen: ReplayObservation) -> ConditionFinding:
    if seen.unresolved is not None:
        return unknown(TARGET_RESOLVED, seen.unresolved.reason, seen.unresolved.message)
    return true(TARGET_RESOLVED)


def _completed(seen: ReplayObservation) -> ConditionFinding:
    if seen.failure is not None:
        return false(COMPLETED, seen.failure.reason, seen.failure.message)
    if seen.complete:
        return true(COMPLETED)
    return unknown(COMPLETED, "Running" if seen.begun else "Waiting")


def _delivered(seen: ReplayObservation, counts: dict[str, Any]) -> ConditionFinding:
    if not seen.complete:
        return unknown(DELIVERED, "Running" if seen.begun else "Waiting")
    failed = counts["failed"]
    if failed:
        message = f"{failed} of {counts['counted']} events could not be delivered; penstock deadletters lists them"
        return false(DELIVERED, "EventsFailed", message)
    return true(DELIVERED, "DryRun", "Events were counted and not delivered.") if seen.dry_run else true(DELIVERED)


def _retained(seen: ReplayObservation, counts: dict[str, Any], previous: Iterable[Any]) -> list[ConditionFinding]:
    """What is no longer kept stays told: whoever looks at the Replay later wants to know, too."""
    missing = counts.get("missing") or 0
    told = str((find(previous, EVENTS_RETAINED) or {}).get("message") or "")
    if missing:
        told = f"{missing} events, not all of them of this Replay, were no longer kept when it came to them"
    elif seen.not_kept:
        told = seen.not_kept
    return [ConditionFinding(EVENTS_RETAINED, "False", "EventsLost", told, "Warning")] if told else []


def _counts(seen: ReplayObservation) -> dict[str, Any]:
    counted, failed = sum(one.counted for one in seen.partitions), sum(one.failed for one in seen.partitions)
    under_way = sum(one.under_way for one in seen.partitions)
    length = sum(max(0, one.end - one.begin) for one in seen.partitions)
    looked_at = sum(min(max(0, one.position - one.begin), max(0, one.end - one.begin)) for one in seen.partitions)
    return {
        "counted": counted,
        "sent": 0 if seen.dry_run else max(0, counted - failed - under_way),
        "failed": failed,
        "missing": sum(one.missing for one in seen.partitions),
        "progress": f"{100 * looked_at // length if length else 100}%",
        "partitions": [
            {
                "partition": one.partition,
                "from": one.begin,
                "to": one.end,
                "position": one.position,
                "counted": one.counted,
            }
            for one in seen.partitions
        ],
    }


def _kept(before: dict[str, Any]) -> dict[str, Any]:
    return {name: before[name] for name in _COUNTS if name in before}


_COUNTS = ("counted", "sent", "failed", "missing", "progress", "partitions")
