"""What an InMemoryChannel must look like. Only the controllers change its subscribers."""

from __future__ import annotations

from penstock.resources.admission import CONTROLLER_USER, AdmissionContext, Obj, annotations_of
from penstock.resources.delivery.options import check_delivery
from penstock.resources.field_errors import FieldErrors, invalid, missing, within
from penstock.resources.immutable import changed
from penstock.resources.inmemorychannel.model import SCOPE_ANNOTATION

WEBHOOK = "validation.inmemorychannel.eventing.knative.dev"


def check(obj: Obj, old: Obj | None, ctx: AdmissionContext) -> FieldErrors:
    """Every complaint about the InMemoryChannel."""
    spec = obj.get("spec") or {}
    errors: FieldErrors = []
    for index, subscriber in enumerate(spec.get("subscribers") or []):
        if not subscriber.get("subscriberUri") and not subscriber.get("replyUri"):
            absent = missing("replyURI", "subscriberURI", details="expected at least one of, got none")
            errors += within(f"subscribable.subscriber[{index}]", [absent])
    errors += within("delivery", check_delivery(spec.get("delivery"), ctx))
    errors = within("spec", errors)
    scope = annotations_of(obj).get(SCOPE_ANNOTATION)
    if scope is not None and scope not in ("cluster", "namespace"):
        path = f"metadata.annotations[{SCOPE_ANNOTATION}]"
        errors.append(invalid(scope, path, "expected either 'cluster' or 'namespace'"))
    if old is not None and ctx.user != CONTROLLER_USER:
        errors += _check_subscribers(obj, old, ctx)
    return errors


def _check_subscribers(obj: Obj, old: Obj, ctx: AdmissionContext) -> FieldErrors:
    before = (old.get("spec") or {}).get("subscribers") or []
    after = (obj.get("spec") or {}).get("subscribers") or []
    message = f"Channel.Spec.Subscribers changed by user {ctx.user} which was not the {CONTROLLER_USER} service account"
    errors = changed(message, "[]v1.SubscriberSpec", before, after, "spec.subscribers")
    # Knative's message for this one does not announce the order of the difference.
    return [type(error)(message, error.paths, error.details) for error in errors]
