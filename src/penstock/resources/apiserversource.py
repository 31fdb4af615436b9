"""ApiServerSource: events of changes in the Kubernetes API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from penstock.kube.kinds import Obj
from penstock.resources import features
from penstock.resources.admission import AdmissionContext, annotations_of
from penstock.resources.conditions import ConditionFinding, conclude, false, true, unknown
from penstock.resources.destinations import ResolvedAddress, Unresolved
from penstock.resources.eventpolicy import NO_IDENTITY, SenderIdentity
from penstock.resources.field_errors import FieldError, FieldErrors, invalid, missing, within
from penstock.resources.filters import check_filters
from penstock.resources.metadata import ObjectIdentity, selector_problem
from penstock.resources.sources import (
    DEPLOYED,
    acceptance_finding,
    check_source,
    event_attributes,
    extensions_of,
    sink_fields,
    sink_finding,
)

# Model.


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
    """The spec of the object, as far as the controllers use it."""

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


# Defaults.


def fill(obj: Obj, ctx: AdmissionContext) -> None:
    """Fills in what was left out."""
    spec = obj["spec"]
    spec["mode"] = spec.get("mode") or REFERENCE
    spec["serviceAccountName"] = spec.get("serviceAccountName") or "default"


# Validation.


MOST_RESOURCES = 100
"""For each of them, in each namespace, there are requests about the ServiceAccount's permissions, and a watch."""
FILTERS_FEATURE = "new-apiserversource-filters"


def check(obj: Obj, old: Obj | None, ctx: AdmissionContext) -> FieldErrors:
    """Every complaint about the ApiServerSource."""
    spec = obj.get("spec") or {}
    errors: FieldErrors = []
    if spec.get("mode") not in (REFERENCE, RESOURCE):
        errors.append(invalid(spec.get("mode") or "", "mode"))
    resources = spec.get("resources") or []
    if not resources:
        errors.append(missing("resources"))
    if len(resources) > MOST_RESOURCES and resources != ((old or {}).get("spec") or {}).get("resources"):
        too_many = f"Too many: {len(resources)}: must have at most {MOST_RESOURCES} items"
        return within("spec", [FieldError(too_many, ("resources",))])
    for number, one in enumerate(resources):
        errors += within(f"resources[{number}]", _check_kind(one) + _check_selector(one.get("selector"), "selector"))
    if spec.get("owner") is not None:
        errors += within("owner", _check_kind(spec["owner"]))
    errors += _check_selector(spec.get("namespaceSelector"), "namespaceSelector")
    return within("spec", errors + check_source(spec) + _check_filters(spec.get("filters"), ctx))


def _check_kind(reference: Obj) -> FieldErrors:
    errors: FieldErrors = []
    version = reference.get("apiVersion") or ""
    if version.count("/") > 1:
        errors.append(invalid(version, "apiVersion"))
    if not str(reference.get("kind") or "").strip():
        errors.append(missing("kind"))
    return errors


def _check_selector(selector: Obj | None, field: str) -> FieldErrors:
    problem = None if selector is None else selector_problem(selector)
    return [] if problem is None else [invalid(problem, field)]


def _check_filters(filters: list[Obj] | None, ctx: AdmissionContext) -> FieldErrors:
    if not filters:
        return []
    if not features.enabled(FILTERS_FEATURE, ctx):
        return [FieldError("Filters is not empty but the NewAPIServerFilters feature is disabled.")]
    return check_filters(None, filters, ctx)


# Status.


SUFFICIENT_PERMISSIONS = "SufficientPermissions"


@dataclass(frozen=True)
class ApiServerObservation:
    """What the controller has found out."""

    api_url: str
    sink: ResolvedAddress | Unresolved
    namespaces: tuple[str, ...] = ()
    missing: str | None = None
    """Which permissions the ServiceAccount lacks; None where it lacks none."""
    watching: bool = False
    """Whether everything is watched, so that no change from now on is missed."""
    problem: str | None = None
    """Why something cannot be watched."""
    trouble: str | None = None
    """Why events wait for the sink; None where none does."""
    identity: SenderIdentity = NO_IDENTITY


def status_of(obj: Obj, seen: ApiServerObservation, now: str) -> dict[str, Any]:
    """The ApiServerSource's status."""
    source = ApiServerSource.read(obj)
    previous = (obj.get("status") or {}).get("conditions") or []
    findings = [
        sink_finding(seen.sink),
        _deployed(seen),
        _permissions(seen),
        seen.identity.finding(),
        *acceptance_finding(seen.trouble),
    ]
    status: dict[str, Any] = {
        "observedGeneration": source.identity.generation,
        "conditions": conclude(previous, findings, now),
        "namespaces": list(seen.namespaces),
        **sink_fields(seen.sink),
        **seen.identity.fields(),
    }
    if isinstance(seen.sink, ResolvedAddress) and seen.missing is None:
        status |= event_attributes(seen.api_url, *(event_type(source.mode, change) for change in CHANGES))
    return status


def _permissions(seen: ApiServerObservation) -> ConditionFinding:
    if isinstance(seen.sink, Unresolved):
        return unknown(SUFFICIENT_PERMISSIONS)
    return true(SUFFICIENT_PERMISSIONS) if seen.missing is None else false(SUFFICIENT_PERMISSIONS, "", seen.missing)


def _deployed(seen: ApiServerObservation) -> ConditionFinding:
    if isinstance(seen.sink, Unresolved) or seen.missing is not None:
        return unknown(DEPLOYED)
    if seen.problem is not None:
        return false(DEPLOYED, "WatchFailed", seen.problem)
    if seen.watching:
        return true(DEPLOYED)
    return unknown(DEPLOYED, "DeploymentUnavailable", "The watches have not begun yet.")
