"""A reference to another object: `{apiVersion, kind, name, namespace}`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.kube.kinds import Obj
from penstock.resources.admission import AccessUnknown, AdmissionContext, EventOrigin, annotations_of, namespace_of
from penstock.resources.field_errors import FieldError, FieldErrors, missing


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
