"""Delivery options, shared by Broker, Trigger, Channel and Subscription."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, cast

from penstock.resources import features
from penstock.resources.admission import AdmissionContext
from penstock.resources.destinations.destination import check_destination, fill_destination
from penstock.resources.durations import NotADuration, parse_duration
from penstock.resources.field_errors import FieldErrors, disallowed, invalid, within

POLICIES = ("linear", "exponential")
FORMATS = ("json", "binary")


@dataclass(frozen=True)
class DeliveryOptions:
    """A delivery spec with its durations in seconds; the dead letter sink is as written."""

    retry: int = 0
    backoff_policy: Literal["linear", "exponential"] | None = None
    backoff_delay: float | None = None
    backoff_max: float | None = None
    timeout: float | None = None
    retry_after_max: float | None = None
    format: Literal["json", "binary"] | None = None
    dead_letter_sink: dict[str, Any] | None = None

    @classmethod
    def read(cls, spec: dict[str, Any] | None) -> DeliveryOptions:
        """The options of a stored object. What an older validation let through and cannot be read counts as unset."""
        spec = spec or {}
        policy, form = spec.get("backoffPolicy"), spec.get("format")
        return cls(
            retry=max(0, int(spec.get("retry") or 0)),
            backoff_policy=cast("Literal['linear', 'exponential']", policy) if policy in POLICIES else None,
            backoff_delay=_seconds(spec.get("backoffDelay")),
            backoff_max=_seconds(spec.get("backoffMax")),
            timeout=_seconds(spec.get("timeout")),
            retry_after_max=_seconds(spec.get("retryAfterMax")),
            format=cast("Literal['json', 'binary']", form) if form in FORMATS else None,
            dead_letter_sink=spec.get("deadLetterSink") or None,
        )


def effective(own: dict[str, Any] | None, inherited: dict[str, Any] | None) -> dict[str, Any]:
    """The delivery spec in force: any option of its own replaces the inherited ones wholly."""
    return own or inherited or {}


def fill_delivery(delivery: object, namespace: str) -> None:
    """Gives the dead letter sink's reference a namespace."""
    if isinstance(delivery, dict):
        fill_destination(delivery.get("deadLetterSink"), namespace)


def check_delivery(delivery: dict[str, Any] | None, ctx: AdmissionContext) -> FieldErrors:
    """What is wrong with the options."""
    errors: FieldErrors = []
    delivery = delivery or {}
    sink = delivery.get("deadLetterSink")
    if sink is not None:
        errors += within("deadLetterSink", check_destination(sink))
    retry = delivery.get("retry")
    if retry is not None and retry < 0:
        errors.append(invalid(retry, "retry"))
    errors += _check_positive(delivery, "timeout", "delivery-timeout", ctx)
    policy = delivery.get("backoffPolicy")
    if policy is not None and policy not in POLICIES:
        errors.append(invalid(policy, "backoffPolicy"))
    delay = delivery.get("backoffDelay")
    if delay is not None and not _at_least(delay, 0):
        errors.append(invalid(delay, "backoffDelay"))
    errors += _check_positive(delivery, "backoffMax", "delivery-backoff-max", ctx)
    form = delivery.get("format")
    if form is not None and form not in FORMATS:
        errors.append(invalid(form, "format"))
    return errors + _check_retry_after(delivery.get("retryAfterMax"), ctx)


def _check_positive(delivery: dict[str, Any], field: str, feature: str, ctx: AdmissionContext) -> FieldErrors:
    """A duration above zero that is allowed where its feature is enabled."""
    duration = delivery.get(field)
    if duration is None:
        return []
    if not features.enabled(feature, ctx):
        return [disallowed(field)]
    return [] if (_seconds(duration) or 0) > 0 else [invalid(duration, field)]


def _check_retry_after(longest: str | None, ctx: AdmissionContext) -> FieldErrors:
    if longest is None:
        return []
    if not features.enabled("delivery-retryafter", ctx):
        return [disallowed("retryAfterMax")]
    return [] if _at_least(longest, 0) else [invalid(longest, "retryAfterMax")]


def _at_least(text: str, least: float) -> bool:
    seconds = _seconds(text)
    return seconds is not None and seconds >= least


def _seconds(text: str | None) -> float | None:
    try:
        return None if text is None else parse_duration(text)
    except NotADuration:
        return None
