"""The past that a Trigger or Subscription asked for when it was made (`penstock.dev/start-from`), in its status.

Only where the history's table has a part in it: what Kafka has comes through the router like everything else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.resources.admission import Obj
from penstock.resources.conditions import ConditionFinding, State, find
from penstock.resources.destinations.resolution import EVENTS_RETAINED, loss_finding
from penstock.resources.replay.status import PartitionProgress

PAST_DELIVERED = "PastDelivered"
NOT_KEPT = "PastNotKept"


@dataclass(frozen=True)
class PastObservation:
    """What the controller has found out."""

    asked: bool = False
    """Whether something delivers the past just now."""
    partitions: Sequence[PartitionProgress] = ()
    """How far that has got; empty until it has begun."""
    not_kept: str = ""
    """What is no longer kept of what was asked for."""


NO_PAST = PastObservation()


def past_findings(obj: Obj, seen: PastObservation, losses: tuple[str, ...]) -> list[ConditionFinding]:
    """The conditions `PastDelivered` and `EventsRetained`. Both stay as they were told; neither counts for Ready."""
    previous = (obj.get("status") or {}).get("conditions") or []
    return [*_delivered(previous, seen), *_retained(previous, seen, losses)]


def past_is(state: State, obj: Obj) -> bool:
    """Whether its past has been delivered or given up (`True`), or is being delivered (`Unknown`)."""
    told = find((obj.get("status") or {}).get("conditions"), PAST_DELIVERED) or {}
    return told.get("status") == state


def _delivered(previous: Iterable[Mapping[str, Any]], seen: PastObservation) -> list[ConditionFinding]:
    if not seen.asked:
        return _again(find(previous, PAST_DELIVERED))
    length = sum(one.end - one.begin for one in seen.partitions)
    if not (seen.partitions and all(one.finished for one in seen.partitions)):
        looked_at = sum(min(one.position, one.end) - one.begin for one in seen.partitions)
        percent = 100 * looked_at // length if length else 0
        message = f"Events from before it was made come beside new ones; {percent} % are looked through."
        return [ConditionFinding(PAST_DELIVERED, "Unknown", "Delivering", message, "Info")]
    if not length:
        message = "All events that it asked for are among those that Kafka has."
        return [ConditionFinding(PAST_DELIVERED, "True", "NothingOlder", message, "Info")]
    counted, failed = sum(one.counted for one in seen.partitions), sum(one.failed for one in seen.partitions)
    missing = sum(one.missing for one in seen.partitions)
    told = [f"{counted} events from before it was made", f"{failed} of them could not be delivered" if failed else ""]
    told.append(f"{missing} events, not all of them for it, were no longer kept" if missing else "")
    return [ConditionFinding(PAST_DELIVERED, "True", "Delivered", "; ".join(filter(None, told)), "Info")]


def _retained(
    previous: Iterable[Mapping[str, Any]], seen: PastObservation, losses: tuple[str, ...]
) -> list[ConditionFinding]:
    if losses:
        return loss_finding(losses)
    if seen.not_kept:
        return [ConditionFinding(EVENTS_RETAINED, "False", NOT_KEPT, seen.not_kept, "Warning")]
    told = find(previous, EVENTS_RETAINED)
    return _again(told) if told is not None and told.get("reason") == NOT_KEPT else []


def _again(told: Mapping[str, Any] | None) -> list[ConditionFinding]:
    """A condition as it was told before."""
    if told is None:
        return []
    reason, message = str(told.get("reason") or ""), str(told.get("message") or "")
    return [ConditionFinding(told["type"], told["status"], reason, message, told.get("severity") or "")]
