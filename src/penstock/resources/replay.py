"""Replay (penstock.dev/v1alpha1): past events are delivered again.

Triggers and Subscriptions that ask for past events when they are created have the conditions at the end of this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.kube.kinds import Obj
from penstock.resources.admission import AdmissionContext, namespace_of
from penstock.resources.conditions import ConditionFinding, State, conclude, false, find, true, unknown
from penstock.resources.delivery import check_delivery, fill_delivery
from penstock.resources.destinations import (
    EVENTS_RETAINED,
    KReference,
    check_destination,
    check_reference,
    fill_destination,
    fill_namespace,
    is_empty,
    loss_finding,
)
from penstock.resources.field_errors import FieldError, FieldErrors, changed, disallowed, invalid, missing, within
from penstock.resources.filters import check_filters
from penstock.resources.metadata import ObjectIdentity
from penstock.runtime.times import EXPECTED, moment_of, parse_rfc3339, span_of

# Model.


GROUP, KIND, PLURAL = "penstock.dev", "Replay", "replays"

TARGETS = {"Trigger": "eventing.knative.dev/v1", "Subscription": "messaging.knative.dev/v1"}
SOURCES = {
    "Broker": "eventing.knative.dev/v1",
    "Channel": "messaging.knative.dev/v1",
    "InMemoryChannel": "messaging.knative.dev/v1",
}


@dataclass(frozen=True)
class ReplaySpec:
    """The spec of the object, as far as the controllers use it."""

    identity: ObjectIdentity
    target: KReference | None
    source: KReference | None
    sink: dict[str, Any]
    delivery: dict[str, Any]
    since: float
    """Unix time; 0: the earliest there is."""
    until: float | None
    """Unix time; None: when it begins."""
    ids: tuple[str, ...]
    dead_letters: bool
    reason: str
    filters: list[dict[str, Any]]
    rate: float | None
    dry_run: bool

    @classmethod
    def read(cls, obj: Obj) -> ReplaySpec:
        """The Replay behind a stored object."""
        spec, identity = obj.get("spec") or {}, ObjectIdentity.read(obj)
        made = parse_rfc3339(str(obj["metadata"]["creationTimestamp"])).timestamp()
        rate = spec.get("rate")
        return cls(
            identity,
            _reference(spec.get("target"), identity.namespace),
            _reference(spec.get("source"), identity.namespace),
            spec.get("sink") or {},
            spec.get("delivery") or {},
            moment_of(str(spec.get("from") or "earliest"), made) or 0.0,
            moment_of(str(spec["to"]), made) if spec.get("to") else None,
            tuple(spec.get("eventIds") or ()),
            bool(spec.get("deadLetters")),
            str(spec.get("reason") or ""),
            spec.get("filters") or [],
            float(rate) if rate else None,
            bool(spec.get("dryRun")),
        )


def _reference(ref: dict[str, Any] | None, namespace: str) -> KReference | None:
    return KReference.read(ref, namespace) if ref else None


# Defaults.


def fill(obj: Obj, ctx: AdmissionContext) -> None:
    """Fills in what was left out."""
    namespace, spec = namespace_of(obj, ctx), obj["spec"]
    for name, versions in (("target", TARGETS), ("source", SOURCES)):
        _fill_reference(spec.get(name), versions, namespace)
    fill_destination(spec.get("sink"), namespace)
    fill_delivery(spec.get("delivery"), namespace)


def _fill_reference(ref: object, versions: Mapping[str, str], namespace: str) -> None:
    if isinstance(ref, dict) and ref:
        fill_namespace(ref, namespace)
        if not ref.get("apiVersion") and ref.get("kind") in versions:
            ref["apiVersion"] = versions[str(ref["kind"])]


# Validation.


_LONG_AGO = 1e10
"""A stand-in for the time when the Replay is created, where two durations before it are compared."""


def check(obj: Obj, old: Obj | None, ctx: AdmissionContext) -> FieldErrors:
    """Every complaint about the Replay."""
    spec = obj.get("spec") or {}
    namespace = namespace_of(obj, ctx)
    errors = _check_ends(spec, namespace, ctx) + _check_window(spec) + _check_dead_letters(spec)
    errors += check_filters(None, spec.get("filters"), ctx)
    rate = spec.get("rate")
    if rate is not None and rate <= 0:
        errors.append(invalid(rate, "rate", "expected a number greater than 0"))
    errors = within("spec", errors)
    if old is not None and (old.get("status") or {}).get("startTime"):
        before = old.get("spec") or {}
        errors += changed("Immutable fields changed", "v1alpha1.ReplaySpec", before, spec, "spec")
    return errors


def _check_ends(spec: Obj, namespace: str, ctx: AdmissionContext) -> FieldErrors:
    """Where events come from, and where they go."""
    target, source = spec.get("target"), spec.get("source")
    if bool(target) == bool(source):
        got = "both" if target else "neither"
        return [FieldError(f"expected exactly one, got {got}", ("source", "target"))]
    if target:
        errors = _check_kind("target", target, TARGETS, namespace)
        return errors + [disallowed(name) for name in ("sink", "delivery") if spec.get(name)]
    errors = _check_kind("source", source or {}, SOURCES, namespace)
    sink = spec.get("sink") or {}
    errors += [missing("sink")] if is_empty(sink) else within("sink", check_destination(sink))
    return errors + within("delivery", check_delivery(spec.get("delivery"), ctx))


def _check_kind(field: str, ref: dict[str, Any], versions: Mapping[str, str], namespace: str) -> FieldErrors:
    errors = check_reference(ref, namespace)
    kind, version = ref.get("kind"), ref.get("apiVersion")
    if kind and kind not in versions:
        errors = [invalid(kind, "kind", f"expected one of {', '.join(versions)}")]
    elif kind and version and version != versions[kind]:
        errors.append(invalid(version, "apiVersion", f"expected {versions[kind]}"))
    return within(field, errors)


def _check_window(spec: Obj) -> FieldErrors:
    moments: dict[str, float] = {}
    errors: FieldErrors = []
    for name in ("from", "to"):
        given = spec.get(name)
        if not given:
            continue
        moment = moment_of(given, _LONG_AGO)
        if moment is None:
            errors.append(invalid(given, name, EXPECTED))
        else:
            moments[name] = moment
    alike = len({span_of(str(spec[name])) is None for name in moments}) == 1
    if len(moments) == 2 and alike and moments["from"] >= moments["to"]:
        errors.append(invalid(spec["to"], "to", f"expected a later time than from: {spec['from']}"))
    return errors


def _check_dead_letters(spec: Obj) -> FieldErrors:
    errors: FieldErrors = []
    if spec.get("deadLetters") and not spec.get("target"):
        errors.append(disallowed("deadLetters", details="only a target gives events up"))
    if spec.get("reason") and not spec.get("deadLetters"):
        errors.append(disallowed("reason", details="it selects among deadLetters"))
    return errors


# Status.


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
    """Why it can never be completed."""

    reason: str
    message: str


@dataclass(frozen=True)
class ReplayObservation:
    """What the controller has found out."""

    unresolved: ReplayFailure | None = None
    """Why it cannot begin or continue for now."""
    failure: ReplayFailure | None = None
    partitions: Sequence[PartitionProgress] = ()
    """Empty until it has begun."""
    dry_run: bool = False
    begun: bool = False
    not_kept: str = ""
    """Which of the requested events are no longer kept."""

    @property
    def complete(self) -> bool:
        """Whether every event has been delivered, dropped or sent to the dead letter sink."""
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
    """Lost events stay in the status of a Replay."""
    missing = counts.get("missing") or 0
    message = str((find(previous, EVENTS_RETAINED) or {}).get("message") or "")
    if missing:
        message = f"{missing} events, not all of them of this Replay, were no longer kept when it reached them"
    elif seen.not_kept:
        message = seen.not_kept
    return [ConditionFinding(EVENTS_RETAINED, "False", "EventsLost", message, "Warning")] if message else []


def _counts(seen: ReplayObservation) -> dict[str, Any]:
    counted, failed = sum(one.counted for one in seen.partitions), sum(one.failed for one in seen.partitions)
    under_way = sum(one.under_way for one in seen.partitions)
    length = sum(max(0, one.end - one.begin) for one in seen.partitions)
    read = sum(min(max(0, one.position - one.begin), max(0, one.end - one.begin)) for one in seen.partitions)
    return {
        "counted": counted,
        "sent": 0 if seen.dry_run else max(0, counted - failed - under_way),
        "failed": failed,
        "missing": sum(one.missing for one in seen.partitions),
        "progress": f"{100 * read // length if length else 100}%",
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


# Past.


PAST_DELIVERED = "PastDelivered"
NOT_KEPT = "PastNotKept"


@dataclass(frozen=True)
class PastObservation:
    """What the controller has found out."""

    requested: bool = False
    """Whether past events are being delivered."""
    partitions: Sequence[PartitionProgress] = ()
    """The progress; empty until it has begun."""
    not_kept: str = ""
    """Which of the requested events are no longer kept."""


NO_PAST = PastObservation()


def past_findings(
    obj: Obj, seen: PastObservation, losses: tuple[str, ...], *, expiring: bool = False
) -> list[ConditionFinding]:
    """The conditions `PastDelivered` and `EventsRetained`. Both keep their last value; neither counts for Ready."""
    previous = (obj.get("status") or {}).get("conditions") or []
    return [*_delivered_past(previous, seen), *_retained_past(previous, seen, losses, expiring=expiring)]


def past_is(state: State, obj: Obj) -> bool:
    """Whether the delivery of past events has ended (`True`), or is under way (`Unknown`)."""
    previous_condition = find((obj.get("status") or {}).get("conditions"), PAST_DELIVERED) or {}
    return previous_condition.get("status") == state


def _delivered_past(previous: Iterable[Mapping[str, Any]], seen: PastObservation) -> list[ConditionFinding]:
    if not seen.requested:
        return _again(find(previous, PAST_DELIVERED))
    length = sum(one.end - one.begin for one in seen.partitions)
    if not (seen.partitions and all(one.finished for one in seen.partitions)):
        read = sum(min(one.position, one.end) - one.begin for one in seen.partitions)
        percent = 100 * read // length if length else 0
        message = f"Events from before it was created are delivered beside new ones; {percent} % have been read."
        return [ConditionFinding(PAST_DELIVERED, "Unknown", "Delivering", message, "Info")]
    if not length:
        message = "Kafka has all events that it asked for."
        return [ConditionFinding(PAST_DELIVERED, "True", "NothingOlder", message, "Info")]
    counted, failed = sum(one.counted for one in seen.partitions), sum(one.failed for one in seen.partitions)
    missing = sum(one.missing for one in seen.partitions)
    parts = [
        f"{counted} events from before it was created",
        f"{failed} of them could not be delivered" if failed else "",
    ]
    parts.append(f"{missing} events, not all of them for it, were no longer kept" if missing else "")
    return [ConditionFinding(PAST_DELIVERED, "True", "Delivered", "; ".join(filter(None, parts)), "Info")]


def _retained_past(
    previous: Iterable[Mapping[str, Any]], seen: PastObservation, losses: tuple[str, ...], *, expiring: bool
) -> list[ConditionFinding]:
    if losses or expiring:
        return loss_finding(losses, expiring=expiring)
    if seen.not_kept:
        return [ConditionFinding(EVENTS_RETAINED, "False", NOT_KEPT, seen.not_kept, "Warning")]
    previous_condition = find(previous, EVENTS_RETAINED)
    return (
        _again(previous_condition)
        if previous_condition is not None and previous_condition.get("reason") == NOT_KEPT
        else []
    )


def _again(previous_condition: Mapping[str, Any] | None) -> list[ConditionFinding]:
    """A condition with its previous value."""
    if previous_condition is None:
        return []
    reason, message = str(previous_condition.get("reason") or ""), str(previous_condition.get("message") or "")
    return [
        ConditionFinding(
            previous_condition["type"],
            previous_condition["status"],
            reason,
            message,
            previous_condition.get("severity") or "",
        )
    ]
