"""The status of a SinkBinding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.resources.admission import Obj
from penstock.resources.conditions import Finding, conclude, false, true
from penstock.resources.eventpolicy.access import NOBODY
from penstock.resources.metadata import Identity
from penstock.resources.resolution import Address, Unresolved
from penstock.resources.sources.source_status import SINK_PROVIDED, sink_fields

AVAILABLE = "SinkBindingAvailable"
OIDC_TOKEN_SECRET_CREATED = "OIDCTokenSecretCreated"  # noqa: S105  # the name of a condition
TRUST_BUNDLE_PROPAGATED = "TrustBundlePropagated"

_NO_OIDC = "authentication-oidc feature disabled"


@dataclass(frozen=True)
class BindingProblem:
    """Why the subject is not bound."""

    reason: str
    message: str


@dataclass(frozen=True)
class BindingObservation:
    """What the controller has found out."""

    sink: Address | Unresolved
    problem: BindingProblem | None = None
    missing_bundles: str | None = None
    """Why the namespace has not got every trust bundle."""


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
        NOBODY.finding(),
        true(OIDC_TOKEN_SECRET_CREATED, _NO_OIDC),
        _bundles(seen.missing_bundles),
    ]
    return {
        "observedGeneration": Identity.read(obj).generation,
        "conditions": conclude(previous, findings, now),
        **sink_fields(seen.sink),
    }


def _bundles(missing: str | None) -> Finding:
    if missing is None:
        return true(TRUST_BUNDLE_PROPAGATED)
    return false(TRUST_BUNDLE_PROPAGATED, "FailedTrustBundlePropagation", missing)
