"""The status of an EventPolicy: whether it is enforced, and whom it means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.oidc.names import subject_of
from penstock.resources.admission import Obj
from penstock.resources.conditions import conclude, false, true, unknown
from penstock.resources.metadata import ObjectIdentity

AUTHENTICATION_ENABLED = "AuthenticationEnabled"
SUBJECTS_RESOLVED = "SubjectsResolved"


class NoSubjects(Exception):  # told in the status
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
    """The object that a policy refers to is not there."""
    place = f"{reference.get('namespace') or ''}/{reference.get('name') or ''}"
    return NoSubjects(_not_resolved(f"failed to get authenticatable {place}: failed to get object {place}: {why}"))


def _not_resolved(why: str) -> str:
    return f"could not resolve subjects from reference: could not resolve auth status: {why}"
