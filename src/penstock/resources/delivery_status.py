"""The condition `Delivering` and `status.delivery` of Triggers and Subscriptions: whether events arrive, or why not.

The condition is a warning and does not count towards Ready, which says that a route is set up. It exists from the first
attempt on; its message contains no counts, so that its `lastTransitionTime` is that of the change.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

from penstock.contract.attempts import FailureCause
from penstock.kube.kinds import Obj
from penstock.resources.conditions import ConditionFinding
from penstock.resources.eventpolicy import NO_IDENTITY, SenderIdentity
from penstock.resources.replay import NO_PAST, PastObservation, past_findings
from penstock.resources.secrets import NO_SECRETS, UsedSecrets
from penstock.runtime.times import rfc3339

DELIVERING = "Delivering"

_DOES = {
    FailureCause.CONNECTION_REFUSED: "refuses connections",
    FailureCause.CONNECTION_TIMEOUT: "does not accept connections in time",
    FailureCause.CONNECTION_CLOSED: "closes connections without a response",
    FailureCause.TIMEOUT: "does not respond in time",
    FailureCause.NAME_NOT_FOUND: "has a host name that does not resolve",
    FailureCause.NO_READY_ADDRESS: "has no ready address",
    FailureCause.DESTINATION_REFUSED: "is a destination that the settings forbid",
    FailureCause.CERTIFICATE_REFUSED: "has a certificate that is not trusted",
    FailureCause.CLIENT_CERTIFICATE_REFUSED: "rejects the client certificate, or requires one",
    FailureCause.SECRET_UNAVAILABLE: "gets no events, because a Secret of the route cannot be read",
    FailureCause.TOKEN_UNAVAILABLE: "gets no events, because there is no token of the ServiceAccount",
    FailureCause.HISTORY_UNAVAILABLE: "gets no events from before the oldest in Kafka: the history cannot be read",
    FailureCause.CACERTS_UNREADABLE: "gets no events, because its CACerts cannot be read",
    FailureCause.DNS_UNAVAILABLE: "gets no events, because no DNS server responds for its host name",
    FailureCause.OUT_OF_RESOURCES: "gets no events, because this machine cannot open another connection",
    FailureCause.NOT_HTTP: "does not respond with HTTP",
    FailureCause.DELIVERY_FAILED: "does not accept events",
}
"""What the destination does, as words that follow its address."""


@dataclass(frozen=True)
class DeliveryState:
    """How the deliveries of a route go, over all tasks. Times are Unix seconds; 0: never, or not now."""

    lag: int = 0
    outstanding: int = 0
    oldest: float = 0.0
    succeeded: float = 0.0
    failures: int = 0
    since: float = 0.0
    due: float = 0.0
    status: int | None = None
    reason: str = ""
    cause: FailureCause = FailureCause.DELIVERY_FAILED
    url: str = ""
    expiring: bool = False
    """Whether retention will soon remove events that wait, wherever they are kept."""

    @property
    def fails(self) -> bool:
        """Whether attempts fail, one after the other."""
        return bool(self.failures)


def delivering_finding(state: DeliveryState | None, paused: bool) -> list[ConditionFinding]:
    """The condition, where there is anything to say."""
    if paused:
        message = "Events wait until the annotation penstock.dev/paused is removed."
        return [ConditionFinding(DELIVERING, "False", "Paused", message, "Info")]
    if state is None or not (state.succeeded or state.fails):
        return []
    if not state.fails:
        return [ConditionFinding(DELIVERING, "True")]
    reason, does = cause(state)
    details = "" if state.status is not None or not state.reason else f" ({state.reason})"
    message = f"{state.url} {does} since {moment(state.since)}{details}"
    return [ConditionFinding(DELIVERING, "False", reason, message, "Warning")]


def cause(state: DeliveryState) -> tuple[str, str]:
    """Why attempts fail: a reason for programs, and what the destination does, as words that follow its address."""
    if state.status is not None and not 200 <= state.status <= 299:
        return f"HTTPStatus{state.status}", f"returns {state.status}{_phrase(state.status)}"
    if state.status is not None:
        return "ReplyRefused", f"returns {state.status}, but {state.reason}"
    return state.cause.value, _DOES[state.cause]


def delivery_fields(state: DeliveryState | None, paused: bool) -> dict[str, Any]:
    """`status.delivery`, where there is anything to say."""
    if state is None and not paused:
        return {}
    state = state or DeliveryState()
    fields: dict[str, Any] = {"lag": state.lag, "outstanding": state.outstanding}
    if paused:
        fields["paused"] = True
    for name, time in (("oldestEventTime", state.oldest), ("lastSuccessTime", state.succeeded)):
        if time:
            fields[name] = moment(time)
    if state.fails:
        fields |= {"consecutiveFailures": state.failures, "failingSince": moment(state.since)}
        failure: dict[str, Any] = {"url": state.url, "message": state.reason}
        if state.status is not None:
            failure["statusCode"] = state.status
        fields["lastFailure"] = failure
    return {"delivery": fields}


def moment(seconds: float) -> str:
    """A time in the format of statuses."""
    return rfc3339(datetime.fromtimestamp(seconds, UTC))


def _phrase(status: int) -> str:
    try:
        return f" {HTTPStatus(status).phrase}"
    except ValueError:
        return ""


@dataclass(frozen=True, kw_only=True)
class RouteObservation:
    """What controllers find out about every route, whether of a Trigger or a Subscription."""

    losses: tuple[str, ...] = ()
    delivery: DeliveryState | None = None
    """How deliveries go; None where nothing is known."""
    paused: bool = False
    identity: SenderIdentity = NO_IDENTITY
    past: PastObservation = NO_PAST
    secrets: UsedSecrets = NO_SECRETS

    def warnings(self, obj: Obj) -> list[ConditionFinding]:
        """Conditions of the route `obj` that do not count towards Ready."""
        expiring = self.delivery is not None and self.delivery.expiring
        past = past_findings(obj, self.past, self.losses, expiring=expiring)
        return [*past, *delivering_finding(self.delivery, self.paused)]
