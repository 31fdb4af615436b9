"""Token and access reviews: who a token belongs to, and what a user may do by the stored RBAC objects."""

from __future__ import annotations

from penstock.apiserver import errors
from penstock.apiserver.access.account_tokens import AUDIENCES
from penstock.apiserver.access.authentication import Authenticator
from penstock.apiserver.access.identity import User
from penstock.apiserver.access.policy import Authorizer
from penstock.apiserver.access.rules import AccessRequest
from penstock.apiserver.kinds.registry import ServedKind
from penstock.kube.kinds import Obj

_RESOURCE_FIELDS = ("verbs", "apiGroups", "resources", "resourceNames")


class Reviews:
    """Completes every kind of review."""

    def __init__(self, authenticator: Authenticator, authorizer: Authorizer) -> None:
        self._authenticator, self._authorizer = authenticator, authorizer

    def completed(self, kind: ServedKind, review: Obj, user: User, namespace: str | None) -> Obj:
        """The review with its status filled in."""
        spec = review.get("spec") or {}
        if not isinstance(spec, dict):
            raise errors.bad_request("spec is not an object")
        status = self._status(kind.kind, spec, user, namespace)
        return {**review, "apiVersion": kind.api_version, "kind": kind.kind, "status": status}

    def _status(self, kind: str, spec: Obj, user: User, namespace: str | None) -> Obj:
        match kind:
            case "SelfSubjectReview":
                return {"userInfo": user.info()}
            case "TokenReview":
                return self._token_status(spec)
            case "SelfSubjectRulesReview":
                return self._rules_status(spec, user)
            case "SelfSubjectAccessReview":
                return self._access_status(spec, user, None)
            case _:
                return self._access_status(spec, _subject(spec), namespace)

    def _access_status(self, spec: Obj, subject: User, namespace: str | None) -> Obj:
        request = _request(spec)
        if namespace is not None and request.namespace != namespace:
            field = "spec.resourceAttributes.namespace"
            raise errors.bad_request(f'{field}: Invalid value: "{request.namespace}": must match metadata.namespace')
        granted, reason = self._authorizer.decide(subject, request)
        return {"allowed": granted} | ({"reason": reason} if reason else {})

    def _rules_status(self, spec: Obj, user: User) -> Obj:
        namespace = str(spec.get("namespace") or "")
        if not namespace:
            raise errors.bad_request("no namespace on request")
        rules = self._authorizer.policy.rules_of(user, namespace)
        return {
            "resourceRules": [
                {field: list(rule[field]) for field in _RESOURCE_FIELDS if rule.get(field)}
                for rule in rules
                if rule.get("resources")
            ],
            "nonResourceRules": [
                {"verbs": list(rule["verbs"]), "nonResourceURLs": list(rule["nonResourceURLs"])}
                for rule in rules
                if rule.get("nonResourceURLs")
            ],
            "incomplete": False,
        }

    def _token_status(self, spec: Obj) -> Obj:
        wanted = [str(one) for one in spec.get("audiences") or AUDIENCES]
        authenticated = self._authenticator.authenticate(str(spec.get("token") or ""), wanted)
        if authenticated is None:
            return {"authenticated": False, "user": {}, "error": "invalid bearer token"}
        return {"authenticated": True, "user": authenticated.user.info(), "audiences": list(authenticated.audiences)}


def _subject(spec: Obj) -> User:
    """The subject as given in the review; no groups are added."""
    name, groups = str(spec.get("user") or ""), tuple(str(group) for group in spec.get("groups") or ())
    if not name and not groups:
        raise errors.bad_request("spec.user: Required value: at least one of user or group must be specified")
    return User(name, groups, str(spec.get("uid") or ""))


def _request(spec: Obj) -> AccessRequest:
    attributes, plain = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if isinstance(attributes, dict) == isinstance(plain, dict):
        raise errors.bad_request("exactly one of nonResourceAttributes or resourceAttributes must be specified")
    if isinstance(plain, dict):
        return AccessRequest(str(plain.get("verb", "")), path=str(plain.get("path", "")))
    fields = ("verb", "group", "resource", "subresource", "namespace", "name")
    return AccessRequest(**{field: str((attributes or {}).get(field) or "") for field in fields})
