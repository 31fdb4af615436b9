"""EventPolicy (eventing.knative.dev/v1alpha1): which senders may send which events to Brokers, Channels and sinks.

`TargetRules` decides about the events of a sender, `TargetAccess` and `SenderIdentity` are the two sides of it in
statuses, `SinkGuard` is for targets that are not served by the ingress.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.contract.routes import Access, AuthorizationMode, Policy
from penstock.events.event import CloudEvent
from penstock.filters.evaluate import matches_event
from penstock.filters.parse import InvalidFilter, parse
from penstock.filters.predicate import AnyOf, Everything, Not, Predicate
from penstock.kube.kinds import Obj
from penstock.oidc.names import ACCOUNT_PREFIX, subject_of
from penstock.resources import features
from penstock.resources.admission import AdmissionContext, namespace_of
from penstock.resources.conditions import READY, ConditionFinding, conclude, false, find, true, unknown
from penstock.resources.features import Transport
from penstock.resources.field_errors import FieldError, FieldErrors, invalid, missing, within
from penstock.resources.filters import check_filters
from penstock.resources.metadata import ObjectIdentity, selector_matches, selector_problem

# Model.


GROUP, KIND, PLURAL = "eventing.knative.dev", "EventPolicy", "eventpolicies"


@dataclass(frozen=True)
class EventPolicy:
    """Which senders may send which events to which targets."""

    namespace: str
    name: str
    to: tuple[Mapping[str, Any], ...]
    """Empty: everything in its namespace."""
    filters: list[dict[str, Any]]
    subjects: tuple[str, ...]
    """The senders, as far as they are resolved in the status."""
    is_ready: bool

    @classmethod
    def read(cls, obj: Obj) -> EventPolicy:
        """The policy of a stored object. A status of an earlier generation does not count."""
        metadata, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
        ready = find(status.get("conditions"), READY) or {}
        is_current = status.get("observedGeneration", 0) == metadata.get("generation", 0)
        return cls(
            str(metadata.get("namespace") or ""),
            str(metadata["name"]),
            tuple(spec.get("to") or ()),
            list(spec.get("filters") or []),
            tuple(status.get("from") or ()),
            is_current and ready.get("status") == "True",
        )

    def applies_to(self, group: str, kind: str, name: str, labels: Mapping[str, str]) -> bool:
        """Whether it applies to this object of its namespace."""
        return not self.to or any(_names(entry, group, kind, name, labels) for entry in self.to)


def _names(entry: Mapping[str, Any], group: str, kind: str, name: str, labels: Mapping[str, str]) -> bool:
    reference, selector = entry.get("ref"), entry.get("selector")
    if reference:
        return _is_kind(reference, group, kind) and str(reference.get("name") or "").lower() == name.lower()
    if selector:
        valid = selector_problem(selector) is None
        return _is_kind(selector, group, kind) and valid and selector_matches(selector, labels)
    return False


def _is_kind(named: Mapping[str, Any], group: str, kind: str) -> bool:
    theirs = str(named.get("apiVersion") or "").rpartition("/")[0]
    return (theirs.lower(), str(named.get("kind") or "").lower()) == (group.lower(), kind.lower())


# Rules.


NOTHING = Not(Everything())


MOST_SUBJECTS = 1000
"""Subjects whose predicate is cached."""


class TargetRules:
    """The rules of one target, with its filters parsed."""

    __slots__ = ("_allowed", "_own", "_policies", "access")

    def __init__(self, namespace: str, access: Access) -> None:
        """`namespace` is the target's."""
        self.access = access
        self._own = f"{ACCOUNT_PREFIX}{namespace}:"
        self._policies = [(policy, _predicate(policy)) for policy in access.policies]
        self._allowed: dict[str, Predicate | None] = {}

    def why_not(self, subject: str) -> str | None:
        """Why no event of the subject is accepted; None where some may be."""
        if self._policies:
            if self._wanted(subject) is not None:
                return None
            listed = ", ".join(policy.name for policy, _ in self._policies)
            return f'none of the event policies that apply here ({listed}) is for the subject "{subject}"'
        mode = self.access.default_mode
        if mode == "deny-all":
            return "no event policy applies here, and default-authorization-mode is deny-all"
        if mode == "allow-same-namespace" and not subject.startswith(self._own):
            return (
                "no event policy applies here, default-authorization-mode is allow-same-namespace, "
                f'and the subject "{subject}" is not a ServiceAccount of the target\'s namespace'
            )
        return None

    def why_not_these(self, subject: str, events: Iterable[CloudEvent]) -> str | None:
        """Why these events of a subject that may send are not accepted; None where they are."""
        if not self._policies:
            return None
        wanted = self._wanted(subject)
        if isinstance(wanted, Everything):
            return None
        for event in events:
            if wanted is None or not matches_event(wanted, event):
                return f'the event policies for the subject "{subject}" do not allow the event "{event.id}"'
        return None

    def _wanted(self, subject: str) -> Predicate | None:
        """Which events of the subject the policies allow; None: none."""
        if subject not in self._allowed:
            if len(self._allowed) >= MOST_SUBJECTS:
                self._allowed.clear()
            self._allowed[subject] = _any([one for policy, one in self._policies if names(policy.subjects, subject)])
        return self._allowed[subject]


def _any(predicates: list[Predicate]) -> Predicate | None:
    if any(isinstance(predicate, Everything) for predicate in predicates):
        return Everything()
    if len(predicates) == 1:
        return predicates[0]
    return AnyOf(tuple(predicates)) if predicates else None


def names(patterns: Iterable[str], subject: str) -> bool:
    """Whether the subject is one of those, or begins as one with a `*` at its end does."""
    return any(
        pattern == subject or (pattern.endswith("*") and subject.startswith(pattern[:-1])) for pattern in patterns
    )


def _predicate(policy: Policy) -> Predicate:
    try:
        return parse(None, policy.filters)
    except InvalidFilter:
        # Admission lets no such policy through; one that is there all the same must not open the door.
        return NOTHING


# Defaults.


def fill(obj: Obj, ctx: AdmissionContext) -> None:
    """Fills in what was left out."""
    for entry in obj["spec"].get("from") or ():
        reference = entry.get("ref")
        if reference is not None and not reference.get("namespace"):
            reference["namespace"] = namespace_of(obj, ctx)


# Validation.


def check(obj: Obj, old: Obj | None, ctx: AdmissionContext) -> FieldErrors:
    """Every complaint about the EventPolicy."""
    spec = obj.get("spec") or {}
    changes_spec = old is None or (old.get("spec") or {}) != spec
    if changes_spec and not features.enabled(features.OIDC, ctx):
        return [FieldError("oidc-authentication feature not enabled", ("",))]
    errors: FieldErrors = []
    for number, entry in enumerate(spec.get("from") or ()):
        errors += within(f"from[{number}]", _check_from(entry))
    for number, entry in enumerate(spec.get("to") or ()):
        errors += within(f"to[{number}]", _check_to(entry))
    errors += check_filters(None, spec.get("filters"), ctx)
    return within("spec", errors)


def _check_from(entry: dict[str, Any]) -> FieldErrors:
    reference, subject = entry.get("ref"), entry.get("sub")
    errors: FieldErrors = []
    if reference is None and not subject:
        errors.append(FieldError("expected exactly one, got neither", ("ref", "sub")))
    if reference is not None and subject is not None:
        errors.append(FieldError("expected exactly one, got both", ("ref", "sub")))
    if reference is not None:
        errors += within("ref", _check_reference(reference))
    if subject and "*" in subject[:-1]:
        errors.append(invalid(subject, "sub", "'*' is only allowed as suffix"))
    return errors


def _check_to(entry: dict[str, Any]) -> FieldErrors:
    reference, selector = entry.get("ref"), entry.get("selector")
    errors: FieldErrors = []
    if reference is None and selector is None:
        errors.append(FieldError("expected exactly one, got neither", ("ref", "selector")))
    if reference is not None and selector is not None:
        errors.append(FieldError("expected exactly one, got both", ("ref", "selector")))
    if reference is not None:
        errors += within("ref", _check_reference(reference))
    return errors


def _check_reference(reference: dict[str, Any]) -> FieldErrors:
    return [missing(name) for name in ("kind", "apiVersion", "name") if not reference.get(name)]


# Status.


AUTHENTICATION_ENABLED = "AuthenticationEnabled"
SUBJECTS_RESOLVED = "SubjectsResolved"


class NoSubjects(Exception):  # reported in the status
    """Whom a reference means cannot be said."""


@dataclass(frozen=True)
class EventPolicyObservation:
    """What the controller has found out."""

    enabled: bool
    subjects: tuple[str, ...] = ()
    problem: str | None = None
    """Why not all subjects are known."""


def status_of(obj: Obj, seen: EventPolicyObservation, now: str) -> dict[str, Any]:
    """The EventPolicy's status."""
    before = obj.get("status") or {}
    if not seen.enabled:
        findings = [false(AUTHENTICATION_ENABLED, "OIDCAuthenticationDisabled"), unknown(SUBJECTS_RESOLVED)]
    elif seen.problem is not None:
        findings = [true(AUTHENTICATION_ENABLED), false(SUBJECTS_RESOLVED, "SubjectsNotResolved", seen.problem)]
    else:
        findings = [true(AUTHENTICATION_ENABLED), true(SUBJECTS_RESOLVED)]
    status: dict[str, Any] = {
        "observedGeneration": ObjectIdentity.read(obj).generation,
        "conditions": conclude(before.get("conditions") or [], findings, now),
    }
    if seen.enabled and seen.problem is None and seen.subjects:
        status["from"] = list(seen.subjects)
    return status


def subjects_of(reference: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    """The identities of an object that a policy refers to. Raises NoSubjects."""
    namespace, name = str(reference.get("namespace") or ""), str(reference.get("name") or "")
    auth = (found.get("status") or {}).get("auth")
    if auth is None:
        raise NoSubjects(_not_resolved(f".status.auth is missing in object {namespace}/{name}"))
    accounts = list(auth.get("serviceAccountNames") or ())
    if auth.get("serviceAccountName"):
        accounts.append(auth["serviceAccountName"])
    return [subject_of(namespace, str(account)) for account in accounts]


def not_found(reference: Mapping[str, Any], why: str) -> NoSubjects:
    """The object that a policy refers to does not exist."""
    name = f"{reference.get('namespace') or ''}/{reference.get('name') or ''}"
    return NoSubjects(_not_resolved(f"failed to get authenticatable {name}: failed to get object {name}: {why}"))


def _not_resolved(why: str) -> str:
    return f"could not resolve subjects from reference: could not resolve auth status: {why}"


# Access.


EVENT_POLICIES_READY = "EventPoliciesReady"
OIDC_IDENTITY_CREATED = "OIDCIdentityCreated"
POLICY_VERSION = "eventing.knative.dev/v1alpha1"

_MODES: dict[AuthorizationMode, str] = {
    "allow-all": "Allow-All",
    "deny-all": "Deny-All",
    "allow-same-namespace": "Allow-Same-Namespace",
}
"""As Knative writes them in conditions."""


@dataclass(frozen=True)
class SenderIdentity:
    """The ServiceAccount with which an object sends."""

    account: str = ""
    """Empty: none is needed."""
    problem: str = ""
    """Why it does not exist."""

    def fields(self) -> dict[str, Any]:
        """`auth` of the status."""
        return {"auth": {"serviceAccountName": self.account}} if self.account else {}

    def finding(self) -> ConditionFinding:
        """The condition `OIDCIdentityCreated`."""
        if self.problem:
            reason = "Unable to resolve service account for OIDC authentication"
            return false(OIDC_IDENTITY_CREATED, reason, self.problem)
        if not self.account:
            return true(OIDC_IDENTITY_CREATED, "authentication-oidc feature disabled")
        return true(OIDC_IDENTITY_CREATED)


@dataclass(frozen=True)
class TargetAccess:
    """Who may send to an object."""

    audience: str | None = None
    """The audience that tokens must have; None: everyone may send, without a token."""
    mode: AuthorizationMode = "allow-same-namespace"
    policies: tuple[Policy, ...] = ()
    """Those that apply, by name."""
    unready: tuple[str, ...] = ()
    """Names of those among them that are not ready, and so allow no event yet."""

    def fields(self) -> dict[str, Any]:
        """`policies` of the status: those in force."""
        ready = [one.name for one in self.policies if one.name not in self.unready]
        return {"policies": [{"name": name, "apiVersion": POLICY_VERSION} for name in ready]} if ready else {}

    def finding(self) -> ConditionFinding:
        """The condition `EventPoliciesReady`."""
        if self.audience is None:
            message = 'Feature "authentication-oidc" must be enabled to support Authorization'
            return true(EVENT_POLICIES_READY, "OIDCDisabled", message)
        if self.unready:
            message = f"event policies {', '.join(self.unready)} are not ready"
            return false(EVENT_POLICIES_READY, "EventPoliciesNotReady", message)
        if self.policies:
            return true(EVENT_POLICIES_READY)
        return true(EVENT_POLICIES_READY, "DefaultAuthorizationMode", f'Default authz mode is "{_MODES[self.mode]}"')


NO_IDENTITY = SenderIdentity()
OPEN = TargetAccess()


# Guard.


@dataclass(frozen=True)
class SinkGuard:
    """What one JobSink, or the Service of an EventTransform or IntegrationSink, requires of requests."""

    transport: Transport = "disabled"
    rules: TargetRules | None = None
    """None: everyone may send."""

    def accepts(self, scheme: str) -> bool:
        """Whether events are accepted over `http`, or over `https`."""
        return scheme != ("http" if self.transport == "strict" else "https" if self.transport == "disabled" else "")
