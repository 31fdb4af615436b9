"""The status of a Trigger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.resources.admission import Obj
from penstock.resources.conditions import READY, ConditionFinding, conclude, false, find, true, unknown
from penstock.resources.delivery.delivering import delivery_fields
from penstock.resources.delivery.route_observation import RouteObservation
from penstock.resources.destinations.resolution import (
    DEAD_LETTER_SINK_RESOLVED,
    Resolution,
    ResolvedAddress,
    Unresolved,
    dead_letter_finding,
)
from penstock.resources.eventpolicy.access import OIDC_IDENTITY_CREATED
from penstock.resources.metadata import ObjectIdentity

BROKER_READY = "BrokerReady"
DEPENDENCY_READY = "DependencyReady"
SUBSCRIBER_RESOLVED = "SubscriberResolved"
SUBSCRIPTION_READY = "SubscriptionReady"


@dataclass(frozen=True)
class TriggerObservation(RouteObservation):
    """What the controller has found out."""

    broker_name: str
    broker: Mapping[str, Any] | None
    """The Broker as stored; None: there is none."""
    subscriber: ResolvedAddress | Unresolved
    dead_letter: Resolution
    """The Trigger's own dead letter sink, or the Broker's where the Trigger has no delivery options."""
    dependency: ConditionFinding
    taken: bool
    """Whether the data plane acts by this Trigger as it is now."""
    refused: str | None = None
    """Why it does without this Trigger; None where it does not."""
    waiting: str = ""
    """Why it cannot act by anything new for now, where that is known."""


def status_of(obj: Obj, seen: TriggerObservation, now: str) -> dict[str, Any]:
    """The Trigger's status."""
    previous = (obj.get("status") or {}).get("conditions") or []
    status: dict[str, Any] = {"observedGeneration": ObjectIdentity.read(obj).generation}
    status["conditions"] = conclude(previous, _findings(obj, seen), now)
    status["subscriberUri"] = ""
    status |= seen.identity.fields()
    if seen.broker is not None:
        if isinstance(seen.subscriber, ResolvedAddress):
            status |= seen.subscriber.fields("subscriber")
        if isinstance(seen.dead_letter, ResolvedAddress):
            status |= seen.dead_letter.fields("deadLetterSink")
        elif isinstance(seen.dead_letter, Unresolved):
            status["deadLetterSinkUri"] = ""
    return status | delivery_fields(seen.delivery, seen.paused)


def _findings(obj: Obj, seen: TriggerObservation) -> list[ConditionFinding]:
    if seen.broker is None:
        missing = false(BROKER_READY, "BrokerDoesNotExist", f'Broker "{seen.broker_name}" does not exist')
        others = (
            SUBSCRIBER_RESOLVED,
            DEAD_LETTER_SINK_RESOLVED,
            DEPENDENCY_READY,
            SUBSCRIPTION_READY,
            OIDC_IDENTITY_CREATED,
        )
        return [missing, *(unknown(name) for name in others), *seen.secrets.findings(), *seen.warnings(obj)]
    return [
        _broker_finding(seen.broker),
        _subscriber_finding(seen.subscriber),
        dead_letter_finding(seen.dead_letter),
        seen.dependency,
        _subscription_finding(seen),
        seen.identity.finding(),
        *seen.secrets.findings(),
        *seen.warnings(obj),
    ]


def _broker_finding(broker: Mapping[str, Any]) -> ConditionFinding:
    """A Trigger of a Broker that is not ready is not ready either, whether the Broker failed or is on its way."""
    ready = find((broker.get("status") or {}).get("conditions"), READY)
    if ready is None:
        return false(BROKER_READY, "BrokerNotConfigured", "Broker has not yet been reconciled.")
    if ready["status"] == "True":
        return true(BROKER_READY)
    reason, message = ready.get("reason") or "BrokerNotReady", ready.get("message") or ""
    return false(BROKER_READY, reason, message or "The Broker is not ready.")


def _subscriber_finding(subscriber: ResolvedAddress | Unresolved) -> ConditionFinding:
    if isinstance(subscriber, Unresolved):
        return false(SUBSCRIBER_RESOLVED, "Unable to get the Subscriber's URI", subscriber.message)
    return true(SUBSCRIBER_RESOLVED)


def _subscription_finding(seen: TriggerObservation) -> ConditionFinding:
    if seen.taken and seen.refused is not None:
        return false(SUBSCRIPTION_READY, "FilterNotRoutable", f"No events are routed by this Trigger: {seen.refused}")
    if seen.taken:
        return true(SUBSCRIPTION_READY)
    if seen.waiting:
        return unknown(SUBSCRIPTION_READY, "RouterWaits", seen.waiting)
    return unknown(SUBSCRIPTION_READY, "SubscriptionNotConfigured", "Subscription has not yet been reconciled.")
