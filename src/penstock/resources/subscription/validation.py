"""What a Subscription must look like. Its channel never changes; everything else may.

At least one of subscriber and reply is needed, as the specification says; upstream has since asked for a subscriber,
which `strict-subscriber` in `config-features` brings back.
"""

from __future__ import annotations

from typing import Any

from penstock.resources import features
from penstock.resources.admission import AdmissionContext, Obj
from penstock.resources.delivery.annotations import check_options
from penstock.resources.delivery.options import check_delivery
from penstock.resources.destinations.destination import check_destination, is_empty
from penstock.resources.field_errors import FieldErrors, disallowed, missing, within
from penstock.resources.immutable import changed

_ONLY_LOCAL = "only name, apiVersion and kind are supported fields when feature.CrossNamespaceEventLinks is disabled"


def check(obj: Obj, old: Obj | None, ctx: AdmissionContext) -> FieldErrors:
    """Every complaint about the Subscription."""
    spec = obj.get("spec") or {}
    errors = within("spec", _check_spec(spec, ctx)) + check_options(obj)
    if old is not None:
        before, after = (old.get("spec") or {}).get("channel"), spec.get("channel")
        errors += changed(
            "Immutable fields changed", "v1.SubscriptionSpec", {"channel": before}, {"channel": after}, "spec"
        )
    return errors


def _check_spec(spec: dict[str, Any], ctx: AdmissionContext) -> FieldErrors:
    channel = spec.get("channel") or {}
    if not any(channel.values()):
        return [missing("channel", details="the Subscription must reference a channel")]
    errors = within("channel", _check_channel(channel, ctx))
    subscriber, reply = spec.get("subscriber"), spec.get("reply")
    if is_empty(subscriber) and features.enabled("strict-subscriber", ctx):
        errors.append(missing("subscriber", details="the Subscription must reference a subscriber"))
    elif is_empty(subscriber) and is_empty(reply):
        details = "the Subscription must reference at least one of (reply or a subscriber)"
        errors.append(missing("reply", "subscriber", details=details))
    for name, destination in (("subscriber", subscriber), ("reply", reply)):
        if destination is not None and not is_empty(destination):
            errors += within(name, check_destination(destination))
    return errors + within("delivery", check_delivery(spec.get("delivery"), ctx))


def _check_channel(channel: dict[str, Any], ctx: AdmissionContext) -> FieldErrors:
    errors = [missing(name) for name in ("name", "apiVersion", "kind") if not channel.get(name)]
    if channel.get("namespace") and not features.enabled("cross-namespace-event-links", ctx):
        errors.append(disallowed("namespace", details=_ONLY_LOCAL))
    return errors
