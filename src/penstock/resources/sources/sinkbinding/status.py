"""The status of a SinkBinding."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from penstock.resources.admission import Obj
from penstock.resources.conditions import ConditionFinding, conclude, false, true
from penstock.resources.destinations.resolution import ResolvedAddress, Unresolved
from penstock.resources.eventpolicy.access import NOBODY, OIDC_IDENTITY_CREATED, SenderIdentity
from penstock.resources.metadata import ObjectIdentity
from penstock.resources.sources.source_status import SINK_PROVIDED, sink_fields

AVAILABLE = "SinkBindingAvailable"
OIDC_TOKEN_SECRET_CREATED = "OIDCTokenSecretCreated"  # noqa: S105  # the name of a condition
TRUST_BUNDLE_PROPAGATED = "TrustBundlePropagated"

_NO_OIDC = "authentication-oidc feature disabled"
NO_AUDIENCE = "Sink has no audience defined"


@dataclass(frozen=True)
class SubjectCredentials:
    """As whom the subject sends, and the Secret that holds its token."""

    identity: SenderIdentity = NOBODY
    secret: str = ""
    """Empty: there is none."""
    problem: str = ""
    """Why there is none, or why it holds an old token."""
    needed: bool = True
    """Whether tokens are sent at all: not to a sink without an audience."""

    def findings(self) -> list[ConditionFinding]:
        """The conditions `OIDCIdentityCreated` and `OIDCTokenSecretCreated`."""
        if not self.needed:
            return [true(OIDC_IDENTITY_CREATED, NO_AUDIENCE), true(OIDC_TOKEN_SECRET_CREATED, NO_AUDIENCE)]
        if self.problem:
            failed = false(OIDC_TOKEN_SECRET_CREATED, "Unable to reconcile OIDC token secret", self.problem)
            return [self.identity.finding(), failed]
        made = true(OIDC_TOKEN_SECRET_CREATED) if self.secret else true(OIDC_TOKEN_SECRET_CREATED, _NO_OIDC)
        return [self.identity.finding(), made]

    def fields(self) -> dict[str, Any]:
        """`auth` and `oidcTokenSecretName` of the status."""
        return {**self.identity.fields(), **({"oidcTokenSecretName": self.secret} if self.secret else {})}


@dataclass(frozen=True)
class BindingProblem:
    """Why the subject is not bound."""

    reason: str
    message: str


@dataclass(frozen=True)
class BindingObservation:
    """What the controller has found out."""

    sink: ResolvedAddress | Unresolved
    problem: BindingProblem | None = None
    missing_bundles: str | None = None
    """Why the namespace has not got every trust bundle."""
    credentials: SubjectCredentials = field(default_factory=SubjectCredentials)


def status_of(obj: Obj, seen: BindingObservation, now: str) -> dict[str, Any]:
    """The SinkBinding's status."""
    previous = (obj.get("status") or {}).get("conditions") or []
    if isinstance(seen.sink, Unresolved):
        message = f"Addressable could not be extracted from destination: {seen.sink.message}"
        provided = false(SINK_PROVIDED, "NoAddressable", message)
    else:
        provided = true(SINK_PROVIDED)
    problem = seen.problem
    findings = [
        true(AVAILABLE) if problem is None else false(AVAILABLE, problem.reason, problem.message),
        provided,
        *seen.credentials.findings(),
        _bundles(seen.missing_bundles),
    ]
    return {
        "observedGeneration": ObjectIdentity.read(obj).generation,
        "conditions": conclude(previous, findings, now),
        **sink_fields(seen.sink),
        **seen.credentials.fields(),
    }


def _bundles(missing: str | None) -> ConditionFinding:
    if missing is None:
        return true(TRUST_BUNDLE_PROPAGATED)
    return false(TRUST_BUNDLE_PROPAGATED, "FailedTrustBundlePropagation", missing)
