"""An ApiServerSource as the controllers see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from penstock.resources.admission import Obj, annotations_of
from penstock.resources.metadata import ObjectIdentity
from penstock.resources.sources.source_spec import extensions_of

REFERENCE, RESOURCE = "Reference", "Resource"
SKIP_PERMISSIONS = "features.knative.dev/apiserversource-skip-permissions-check"

Change = Literal["add", "delete", "update"]
CHANGES: tuple[Change, ...] = ("add", "delete", "update")


@dataclass(frozen=True)
class WatchedKind:
    """A kind of objects, and which of them by their labels."""

    api_version: str
    kind: str
    selector: Mapping[str, Any] = field(hash=False)


@dataclass(frozen=True)
class ApiServerSource:
    """What is asked for."""

    identity: ObjectIdentity
    resources: tuple[WatchedKind, ...]
    owner: tuple[str, str] | None
    """apiVersion and kind of the controller that objects must have."""
    mode: str
    service_account: str
    namespace_selector: Mapping[str, Any] | None
    """None: only its own namespace."""
    filters: list[dict[str, Any]]
    extensions: dict[str, str]
    sink: dict[str, Any]
    skips_permissions: bool

    @classmethod
    def read(cls, obj: Obj) -> ApiServerSource:
        """The ApiServerSource behind a stored object."""
        spec, owner = obj.get("spec") or {}, (obj.get("spec") or {}).get("owner")
        return cls(
            ObjectIdentity.read(obj),
            tuple(
                WatchedKind(
                    str(one.get("apiVersion") or ""), str(one.get("kind") or "").strip(), one.get("selector") or {}
                )
                for one in spec.get("resources") or []
            ),
            None if owner is None else (str(owner.get("apiVersion") or ""), str(owner.get("kind") or "")),
            str(spec.get("mode") or REFERENCE),
            str(spec.get("serviceAccountName") or "default"),
            spec.get("namespaceSelector"),
            list(spec.get("filters") or []),
            {str(name): str(value) for name, value in extensions_of(spec).items()},
            dict(spec.get("sink") or {}),
            annotations_of(obj).get(SKIP_PERMISSIONS) == "true",
        )

    @property
    def user(self) -> str:
        """The user that the source acts as."""
        return f"system:serviceaccount:{self.identity.namespace}:{self.service_account}"

    @property
    def everywhere(self) -> bool:
        """Whether all namespaces are watched, those to come too."""
        selector = self.namespace_selector
        return selector is not None and not (selector.get("matchLabels") or selector.get("matchExpressions"))


def event_type(mode: str, change: Change) -> str:
    """The attribute `type` of an event."""
    return f"dev.knative.apiserver.{'ref' if mode == REFERENCE else 'resource'}.{change}"
