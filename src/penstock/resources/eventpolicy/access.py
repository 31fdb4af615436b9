"""Who sends under the name of an object, and who may send to one: what statuses say of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.contract.routes import AuthorizationMode, Policy
from penstock.resources.conditions import ConditionFinding, false, true

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
    """The ServiceAccount as which an object sends."""

    account: str = ""
    """Empty: none is needed."""
    problem: str = ""
    """Why it is not there."""

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
    """None: everybody may."""
    mode: AuthorizationMode = "allow-same-namespace"
    policies: tuple[Policy, ...] = ()
    """Those that apply, by name."""
    unready: tuple[str, ...] = ()
    """Names of those among them that are not ready, and so let nobody in yet."""

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


NOBODY = SenderIdentity()
OPEN = TargetAccess()
