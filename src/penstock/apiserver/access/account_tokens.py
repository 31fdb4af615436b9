"""Tokens of ServiceAccounts: issued for a TokenRequest, valid while the account and the bound object exist."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from penstock.apiserver import errors
from penstock.apiserver.access.identity import AUTHENTICATED, User, account_groups, account_user
from penstock.apiserver.access.signing_keys import Claims, Signer
from penstock.apiserver.documents import meta
from penstock.kube.kinds import Obj
from penstock.runtime.times import rfc3339

API_ISSUER = "https://kubernetes.default.svc.cluster.local"
AUDIENCES = (API_ISSUER,)
"""Those of the API itself: the default of a token that names no audience."""
DEFAULT_SECONDS = 3600
MIN_SECONDS, MAX_SECONDS = 600, 2**32
_PRIVATE = "kubernetes.io"
_BOUND_RESOURCES = {"Pod": "pods", "Secret": "secrets", "Node": "nodes"}

Lookup = Callable[[str, str, str], Obj | None]
"""The stored object of a resource, namespace and name."""


def issue_token(given: Obj, namespace: str, name: str, *, lookup: Lookup, signer: Signer, now: float) -> Obj:
    """The TokenRequest with its token; raises ApiError as Kubernetes would."""
    account = lookup("serviceaccounts", namespace, name)
    if account is None:
        raise errors.not_found("", "serviceaccounts", name)
    _check_metadata(given.get("metadata") or {}, meta(account))
    spec = given.get("spec") or {}
    if not isinstance(spec, dict):
        raise errors.bad_request("spec is not an object")
    seconds = int(min(_seconds(spec.get("expirationSeconds")), signer.longest_seconds))
    audiences = [str(one) for one in spec.get("audiences") or AUDIENCES]
    bound = _bound_object(spec.get("boundObjectRef"), account, lookup)
    claims = account_claims(account, audiences=audiences, seconds=seconds, bound=bound, now=now)
    known = {"name": name, "namespace": namespace, "uid": meta(account)["uid"], "creationTimestamp": _moment(now)}
    return {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": known,
        "spec": {**spec, "audiences": audiences, "expirationSeconds": seconds},
        "status": {"token": signer.sign(claims), "expirationTimestamp": _moment(now + seconds)},
    }


def account_claims(account: Obj, *, audiences: list[str], seconds: int, bound: Obj | None, now: float) -> Claims:
    """The claims of a token of the account; it is valid no longer than the object `bound` exists."""
    details = meta(account)
    private: dict[str, Any] = {
        "namespace": details["namespace"],
        "serviceaccount": {"name": details["name"], "uid": details["uid"]},
    }
    if bound is not None:
        private[bound["kind"].lower()] = {"name": meta(bound)["name"], "uid": meta(bound)["uid"]}
        if node := (bound.get("spec") or {}).get("nodeName"):
            private["node"] = {"name": node}
    return {
        "iss": API_ISSUER,
        "sub": account_user(details["namespace"], details["name"]),
        "aud": audiences,
        "iat": int(now),
        "nbf": int(now),
        "exp": int(now) + seconds,
        "jti": str(uuid.uuid4()),
        _PRIVATE: private,
    }


def user_of_account_token(claims: Claims, lookup: Lookup) -> User | None:
    """The user of a token; None if the account or the object it is bound to has been deleted or replaced since."""
    private = claims.get(_PRIVATE) or {}
    namespace, account = private.get("namespace", ""), private.get("serviceaccount") or {}
    if not _exists("serviceaccounts", namespace, account, lookup):
        return None
    extra = [("authentication.kubernetes.io/credential-id", (f"JTI={claims.get('jti')}",))]
    for kind in ("Pod", "Secret"):
        if bound := private.get(kind.lower()):
            if not _exists(_BOUND_RESOURCES[kind], namespace, bound, lookup):
                return None
            if kind == "Pod":
                extra += [(f"authentication.kubernetes.io/pod-{key}", (bound[key],)) for key in ("name", "uid")]
    if node := private.get("node"):
        if "uid" in node and not _exists("nodes", "", node, lookup):
            return None
        extra.append(("authentication.kubernetes.io/node-name", (node["name"],)))
    groups = (*account_groups(namespace), AUTHENTICATED)
    return User(account_user(namespace, account["name"]), groups, account["uid"], tuple(extra))


def _exists(resource: str, namespace: str, named: Obj, lookup: Lookup) -> bool:
    found = lookup(resource, namespace, str(named.get("name", "")))
    return found is not None and meta(found)["uid"] == named.get("uid")


def _check_metadata(given: Obj, account: Obj) -> None:
    for field in ("name", "namespace"):
        if given.get(field) not in (None, "", account[field]):
            why = f'Invalid value: "{given[field]}": must match the service account {field} if specified'
            complaint = (f"metadata.{field}", "FieldValueInvalid", why)
            raise errors.invalid("authentication.k8s.io", "TokenRequest", account["name"], [complaint])


def _seconds(value: Any) -> int:
    if value is None:
        return DEFAULT_SECONDS
    if not isinstance(value, int) or isinstance(value, bool):
        raise errors.bad_request("spec.expirationSeconds is not a number")
    if value < MIN_SECONDS:
        why = "may not specify a duration less than 10 minutes"
    elif value > MAX_SECONDS:
        why = "may not specify a duration larger than 2^32 seconds"
    else:
        return value
    complaint = ("spec.expirationSeconds", "FieldValueInvalid", f"Invalid value: {value}: {why}")
    raise errors.invalid("authentication.k8s.io", "TokenRequest", "", [complaint])


def _bound_object(reference: Any, account: Obj, lookup: Lookup) -> Obj | None:
    if reference is None:
        return None
    if not isinstance(reference, dict):
        raise errors.bad_request("spec.boundObjectRef is not an object")
    kind, name = str(reference.get("kind", "")), str(reference.get("name", ""))
    resource, namespace = _BOUND_RESOURCES.get(kind, ""), meta(account)["namespace"]
    if not resource or reference.get("apiVersion", "v1") != "v1":
        raise errors.bad_request(f"cannot bind token to object of type {reference.get('apiVersion', '')}, Kind={kind}")
    found = lookup(resource, "" if kind == "Node" else namespace, name)
    if found is None:
        raise errors.not_found("", resource, name)
    if kind == "Pod" and ((found.get("spec") or {}).get("serviceAccountName") or "default") != meta(account)["name"]:
        which = meta(account)["name"]
        raise errors.bad_request(
            f'cannot bind token for serviceaccount "{which}" to pod running with different serviceaccount name.'
        )
    if reference.get("uid") not in (None, "", meta(found)["uid"]):
        why = (
            f"the UID in the bound object reference ({reference['uid']}) does not match the UID in record. "
            "The object might have been deleted and then recreated"
        )
        raise errors.conflict("", kind, name, why)
    return {**found, "kind": kind}


def _moment(seconds: float) -> str:
    return rfc3339(datetime.fromtimestamp(int(seconds), UTC))
