"""Where events go: an object with an address, a URL, or a URL relative to an object's address."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from penstock.kube.kinds import Obj
from penstock.resources.admission import AccessUnknown, AdmissionContext, EventOrigin, annotations_of, namespace_of
from penstock.resources.conditions import ConditionFinding, false, true
from penstock.resources.field_errors import FieldError, FieldErrors, invalid, missing, within

# A reference to another object: `{apiVersion, kind, name, namespace}`.


@dataclass(frozen=True)
class KReference:
    """Which object is meant. `address` picks one of its addresses by name."""

    api_version: str
    kind: str
    name: str
    namespace: str
    address: str | None = None

    @classmethod
    def read(cls, ref: dict[str, Any], namespace: str) -> KReference:
        """The reference as written, in the namespace of the object that refers unless it names one."""
        return cls(
            str(ref.get("apiVersion") or ""),
            str(ref.get("kind") or ""),
            str(ref.get("name") or ""),
            str(ref.get("namespace") or namespace),
            ref.get("address") or None,
        )

    @property
    def group(self) -> str:
        """The API group; empty for the core group."""
        return self.api_version.rpartition("/")[0]


def fill_namespace(ref: object, namespace: str) -> None:
    """Gives the reference a namespace if it has none."""
    if isinstance(ref, dict) and not ref.get("namespace"):
        ref["namespace"] = namespace


def check_reference(ref: dict[str, Any], namespace: str | None) -> FieldErrors:
    """What is wrong with the reference. `namespace` is the only one allowed; None: any."""
    errors = [missing(name) for name in ("name", "apiVersion", "kind") if not ref.get(name)]
    other = ref.get("namespace")
    if namespace is not None and other and other != namespace:
        errors.append(
            FieldError(
                "mismatched namespaces",
                ("namespace",),
                f'parent namespace: "{namespace}" does not match ref: "{other}"',
            )
        )
    return errors


def check_event_link(
    ref: dict[str, Any], resource: str, obj: Obj, old: Obj | None, ctx: AdmissionContext
) -> FieldErrors:
    """Whether the user may take events from what the reference names, where that is in another namespace.

    `resource` is the resource of the reference's kind. Every change of the spec and of the annotations is checked,
    because it may send the events elsewhere. A change of anything else is not: the garbage collector of a cluster
    removes finalizers, and has no such right.
    """
    origin = EventOrigin(
        KReference.read(ref, "").group, resource, str(ref.get("namespace") or ""), str(ref.get("name"))
    )
    if origin.namespace in ("", namespace_of(obj, ctx)):
        return []
    if old is not None and (old.get("spec"), annotations_of(old)) == (obj.get("spec"), annotations_of(obj)):
        return []
    try:
        if ctx.may_subscribe(origin):
            return []
        message = f"user {ctx.user} is not authorized to get target resource in namespace: {origin.namespace}"
    except AccessUnknown as unknown:
        asked = "failed to make authorization request to see if user can subscribe to resources in namespace"
        message = f"{asked}: {unknown}"
    return [FieldError(message, (f"spec.{ref.get('kind')}Namespace",))]


_REF_AND_ABSOLUTE = "Absolute URI is not allowed when Ref or [apiVersion, kind, name] is present"
_RELATIVE_ALONE = "Relative URI is not allowed when Ref and [apiVersion, kind, name] is absent"


def fill_destination(destination: object, namespace: str) -> None:
    """Gives the destination's reference the namespace of the object that refers."""
    if isinstance(destination, dict):
        fill_namespace(destination.get("ref"), namespace)


def is_empty(destination: dict[str, Any] | None) -> bool:
    """Whether nothing is named at all."""
    return not any((destination or {}).values())


def check_destination(destination: dict[str, Any]) -> FieldErrors:
    """What is wrong with the destination."""
    ref, uri = destination.get("ref"), destination.get("uri")
    if not ref and not uri:
        return [FieldError("expected at least one, got none", ("ref", "uri"))]
    absolute = bool(uri) and _is_absolute(str(uri))
    if ref and absolute:
        return [FieldError(_REF_AND_ABSOLUTE, ("[apiVersion, kind, name]", "ref", "uri"))]
    if not ref and not (absolute and urlsplit(str(uri)).netloc):
        return [invalid(_RELATIVE_ALONE, "uri")]
    return within("ref", check_reference(ref, None)) if ref else []


def _is_absolute(uri: str) -> bool:
    try:
        return bool(urlsplit(uri).scheme)
    except ValueError:
        return False


# What became of a destination: the address it leads to, or why it leads nowhere.

DEAD_LETTER_SINK_RESOLVED = "DeadLetterSinkResolved"
EVENTS_RETAINED = "EventsRetained"
EXPIRING = "EventsExpiring"
EXPIRING_MESSAGE = (
    "Within an hour, retention begins to remove events that wait from wherever they are kept. Resume the route or let "
    "its subscriber take more; or raise retention_mib and retention_hours, or what the history keeps (history, "
    "history_mib, history_days)."
)


@dataclass(frozen=True)
class ResolvedAddress:
    """A resolved destination."""

    url: str
    ca_certs: str | None = None
    audience: str | None = None
    account: str = ""
    """ServiceAccount whose tokens go with what a source sends there."""

    def fields(self, prefix: str) -> dict[str, str]:
        """The address as `<prefix>Uri`, `<prefix>CACerts` and `<prefix>Audience`."""
        parts = {"Uri": self.url, "CACerts": self.ca_certs, "Audience": self.audience}
        return {f"{prefix}{name}": value for name, value in parts.items() if value}

    @classmethod
    def read(cls, fields: dict[str, Any], prefix: str) -> ResolvedAddress | None:
        """The address written by `fields`; None where there is none."""
        url = fields.get(f"{prefix}Uri")
        return cls(url, fields.get(f"{prefix}CACerts"), fields.get(f"{prefix}Audience")) if url else None


@dataclass(frozen=True)
class Unresolved:
    """Why a destination leads nowhere."""

    message: str


Resolution = ResolvedAddress | Unresolved | None
"""None: no destination was given."""


def dead_letter_finding(resolution: Resolution) -> ConditionFinding:
    """The condition `DeadLetterSinkResolved`."""
    if resolution is None:
        return true(DEAD_LETTER_SINK_RESOLVED, "DeadLetterSinkNotConfigured", "No dead letter sink is configured.")
    if isinstance(resolution, Unresolved):
        return false(DEAD_LETTER_SINK_RESOLVED, "Unable to get the dead letter sink's URI", resolution.message)
    return true(DEAD_LETTER_SINK_RESOLVED)


def loss_finding(losses: tuple[str, ...], *, expiring: bool = False) -> list[ConditionFinding]:
    """The condition `EventsRetained`, only where events were lost, or are about to be. It warns and does not count
    towards Ready."""
    if not losses:
        return [ConditionFinding(EVENTS_RETAINED, "Unknown", EXPIRING, EXPIRING_MESSAGE, "Warning")] if expiring else []
    message = "Events were removed by retention before they could be delivered: " + "; ".join(losses)
    more = f". More will be: {EXPIRING_MESSAGE}" if expiring else ""
    return [ConditionFinding(EVENTS_RETAINED, "False", "EventsLost", message + more, "Warning")]


def is_expiring(condition: Mapping[str, Any] | None) -> bool:
    """Whether the condition `EventsRetained` warns of a loss to come."""
    found = condition or {}
    return found.get("reason") == EXPIRING or EXPIRING_MESSAGE in str(found.get("message") or "")


def addresses(*known: ResolvedAddress) -> dict[str, Any]:
    """`address` and `addresses` of an Addressable. Who may choose takes the first; who knows only one gets the last."""
    addresses = [_addressable(address) for address in known]
    return {"address": addresses[-1], "addresses": addresses}


def _addressable(address: ResolvedAddress) -> dict[str, str]:
    optional = {"CACerts": address.ca_certs, "audience": address.audience}
    named = {"name": address.url.partition(":")[0], "url": address.url}
    return named | {name: value for name, value in optional.items() if value}
