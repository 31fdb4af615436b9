"""Delivery options, shared by Broker, Trigger, Channel and Subscription."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, cast

from penstock.kube.kinds import Obj
from penstock.resources import features
from penstock.resources.admission import AdmissionContext, annotations_of
from penstock.resources.destinations import check_destination, fill_destination
from penstock.resources.field_errors import FieldError, FieldErrors, disallowed, invalid, within
from penstock.resources.metadata import is_object_name
from penstock.runtime.times import EXPECTED, NotADuration, moment_of, parse_duration, parse_rfc3339

POLICIES = ("linear", "exponential")
FORMATS = ("json", "binary")
SINK_WITHOUT_RETRIES = "delivery.retry is not set: an event goes to the dead letter sink after a single failed attempt"


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
    if sink is not None and not retry:
        ctx.warnings.append(SINK_WITHOUT_RETRIES)
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


# The annotations `penstock.dev/…` that tune the delivery of a Trigger or a Subscription.

MAX_IN_FLIGHT = "penstock.dev/max-in-flight"
ORDERING = "penstock.dev/ordering"
PAUSED = "penstock.dev/paused"
START_FROM = "penstock.dev/start-from"
SIGN_WITH = "penstock.dev/sign-with"
CLIENT_CERTIFICATE = "penstock.dev/client-certificate"

_MOST_IN_FLIGHT = 100_000


@dataclass(frozen=True)
class RouteOptions:
    """The options with their types."""

    max_in_flight: int | None = None
    ordering: Literal["unordered", "key"] = "unordered"
    paused: bool = False
    since: float | None = None
    """Unix time of the oldest requested event; 0: all that are kept; None: only new ones."""
    sign_with: str | None = None
    """The Secret that deliveries are signed with."""
    client_certificate: str | None = None
    """The Secret with the certificate that subscribers are shown."""

    @classmethod
    def read(cls, obj: Obj) -> RouteOptions:
        """The options of a stored object; a value that admission would refuse counts as unset.

        Not so what guards deliveries: a name that no Secret can have is that of a Secret that is missing.
        """
        annotations = annotations_of(obj)
        limit = annotations.get(MAX_IN_FLIGHT, "")
        return cls(
            int(limit) if _is_limit(limit) else None,
            "key" if annotations.get(ORDERING) == "key" else "unordered",
            annotations.get(PAUSED) == "true",
            _since(obj, annotations.get(START_FROM)),
            annotations.get(SIGN_WITH),
            annotations.get(CLIENT_CERTIFICATE),
        )


def check_options(obj: Obj) -> FieldErrors:
    """What is wrong with the annotations."""
    annotations = annotations_of(obj)
    errors: FieldErrors = []
    limit = annotations.get(MAX_IN_FLIGHT)
    if limit is not None and not _is_limit(limit):
        errors.append(_refused(MAX_IN_FLIGHT, limit, f"expected a number from 1 to {_MOST_IN_FLIGHT}"))
    ordering = annotations.get(ORDERING)
    if ordering is not None and ordering not in ("unordered", "key"):
        errors.append(_refused(ORDERING, ordering, "expected either 'unordered' or 'key'"))
    paused = annotations.get(PAUSED)
    if paused is not None and paused not in ("true", "false"):
        errors.append(_refused(PAUSED, paused, "expected either 'true' or 'false'"))
    start = annotations.get(START_FROM)
    if start is not None and moment_of(start, 0.0) is None:
        errors.append(_refused(START_FROM, start, EXPECTED))
    for annotation in (SIGN_WITH, CLIENT_CERTIFICATE):
        secret = annotations.get(annotation)
        if secret is not None and not is_object_name(secret):
            errors.append(_refused(annotation, secret, "expected the name of a Secret in the same namespace"))
    return errors


def _since(obj: Obj, asked: str | None) -> float | None:
    """Durations count back from when the object was made, so that its route begins at the same event whenever that is
    worked out."""
    created = (obj.get("metadata") or {}).get("creationTimestamp")
    if asked is None or not created:
        return None
    return moment_of(asked, parse_rfc3339(str(created)).timestamp())


def _is_limit(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 6 and 1 <= int(text) <= _MOST_IN_FLIGHT


def _refused(annotation: str, value: str, expected: str) -> FieldError:
    return invalid(value, f"metadata.annotations[{annotation}]", expected)
