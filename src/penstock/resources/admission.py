"""What happens to an object of ours before it is stored: defaults are filled in, then it is validated.

On a real cluster two webhooks do this; the embedded API server calls the same functions in the same order. Both are
pure: the object, its predecessor and the context decide.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from penstock.kube.kinds import Obj
from penstock.resources.field_errors import FieldErrors, invalid, render, within
from penstock.settings import Settings

SYSTEM_NAMESPACE = "knative-eventing"
CONTROLLER_USER = f"system:serviceaccount:{SYSTEM_NAMESPACE}:eventing-controller"
WEBHOOK = "validation.webhook.eventing.knative.dev"


SUBSCRIBE = "knsubscribe"
"""The verb that a user needs on a Broker or channel to take its events into another namespace, as in Knative."""


class EventOrigin(NamedTuple):
    """A Broker or channel, as a question about rights names it."""

    group: str
    resource: str
    namespace: str
    name: str


class AccessUnknown(Exception):
    """The API could not be asked what the user may do; the text says why."""


def _may_nothing(_: EventOrigin) -> bool:
    return False


@dataclass(frozen=True)
class AdmissionContext:
    """Who does what, and the configuration that decides about defaults and features."""

    user: str
    namespace: str
    configmaps: Mapping[str, Mapping[str, str]]
    """`data` of the ConfigMaps in `knative-eventing`, by name."""
    settings: Settings
    operation: str
    """`CREATE` or `UPDATE`."""
    old: Obj | None = field(default=None, compare=False)
    """The stored object on an `UPDATE`, so that a change of the spec is noted in `<group>/lastModifier`."""
    may_subscribe: Callable[[EventOrigin], bool] = field(default=_may_nothing, compare=False)
    """Whether the user has the verb `knsubscribe` on a Broker or channel. Raises AccessUnknown."""
    warnings: list[str] = field(default_factory=list, compare=False)
    """Collects what the client is warned of, although the object is accepted."""


class AdmissionDenied(Exception):  # named after the reason in the response
    """The object is refused; the text is what a client of a real cluster would read."""

    def __init__(self, message: str, webhook: str = WEBHOOK) -> None:
        super().__init__(f'admission webhook "{webhook}" denied the request: validation failed: {message}')
        self.message, self.webhook = message, webhook


class Admission(Protocol):
    """Defaults and validation of one kind."""

    def default(self, obj: Obj, ctx: AdmissionContext) -> Obj:
        """A copy of the object with everything filled in that was left out."""

    def validate(self, obj: Obj, old: Obj | None, ctx: AdmissionContext) -> None:
        """Raises AdmissionDenied if the object cannot be stored in place of `old` (None: nothing was there)."""


@dataclass(frozen=True)
class KindAdmission:
    """The admission of a kind, put together from its `defaults` and `validation` modules."""

    group: str
    fill: Callable[[Obj, AdmissionContext], None]
    """Fills defaults into the object it is given."""
    check: Callable[[Obj, Obj | None, AdmissionContext], FieldErrors]
    webhook: str = WEBHOOK

    def default(self, obj: Obj, ctx: AdmissionContext) -> Obj:
        """A copy with defaults; who created or changed the object is noted in its annotations."""
        filled = copy.deepcopy(obj)
        if not isinstance(filled.get("spec"), dict):
            filled["spec"] = filled.get("spec") or {}
        if isinstance(filled["spec"], dict):
            self.fill(filled, ctx)
        _note_user(filled, self.group, ctx)
        return filled

    def validate(self, obj: Obj, old: Obj | None, ctx: AdmissionContext) -> None:
        """Raises AdmissionDenied with every complaint at once."""
        try:
            errors = self.check(obj, old, ctx)
        except (AttributeError, TypeError, KeyError):
            # The schema has refused wrong shapes before; without it an oddly shaped object is still only refused.
            errors = within("spec", [invalid("the object does not have the shape of its kind", "")])
        if errors:
            raise AdmissionDenied(render(errors), self.webhook)


def _note_user(obj: Obj, group: str, ctx: AdmissionContext) -> None:
    annotations = annotations_of(obj)
    if ctx.operation == "CREATE":
        annotations[f"{group}/creator"] = annotations[f"{group}/lastModifier"] = ctx.user
    elif ctx.old is not None and obj.get("spec") != ctx.old.get("spec"):
        annotations[f"{group}/lastModifier"] = ctx.user
    if annotations:
        obj.setdefault("metadata", {})["annotations"] = annotations


def annotations_of(obj: Obj) -> dict[str, str]:
    """A copy of the object's annotations."""
    return dict((obj.get("metadata") or {}).get("annotations") or {})


def namespace_of(obj: Obj, ctx: AdmissionContext) -> str:
    """The namespace the object is or will be in."""
    return str((obj.get("metadata") or {}).get("namespace") or ctx.namespace)
