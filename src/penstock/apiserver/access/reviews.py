"""Access reviews: questions about who may do what, answered from the stored RBAC objects."""

from __future__ import annotations

from penstock.apiserver import errors
from penstock.apiserver.access import rbac
from penstock.apiserver.access.identity import User, acting_as
from penstock.apiserver.documents import Obj, decode
from penstock.apiserver.kinds.registry import ServedKind
from penstock.apiserver.store.storage import Store

_GROUP = rbac.GROUP


async def load_rules(store: Store) -> rbac.Rules:
    """The stored roles and bindings."""

    async def every(plural: str) -> list[Obj]:
        return [decode(body) for body in (await store.page(f"{plural}.{_GROUP}", None)).bodies]

    roles, cluster_roles = await every("roles"), await every("clusterroles")
    return rbac.Rules(
        {(role["metadata"]["namespace"], role["metadata"]["name"]): role for role in roles},
        await every("rolebindings"),
        {role["metadata"]["name"]: role for role in cluster_roles},
        await every("clusterrolebindings"),
    )


async def answer(kind: ServedKind, review: Obj, user: User, store: Store) -> Obj:
    """The review with its status filled in."""
    if kind.kind == "SelfSubjectReview":
        status: Obj = {"userInfo": {"username": user.name, "groups": list(user.groups)}}
    else:
        spec = review.get("spec") or {}
        if not isinstance(spec, dict):
            raise errors.bad_request("spec is not an object")
        subject = user
        if kind.kind != "SelfSubjectAccessReview":
            subject = acting_as(str(spec.get("user", "")), [str(group) for group in spec.get("groups") or ()])
        granted, reason = rbac.allowed(subject, _request(spec), await load_rules(store))
        status = {"allowed": granted}
        if reason:
            status["reason"] = reason
    return {**review, "apiVersion": kind.api_version, "kind": kind.kind, "status": status}


def _request(spec: Obj) -> rbac.AccessRequest:
    attributes, plain = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if not isinstance(attributes, dict) and not isinstance(plain, dict):
        raise errors.bad_request("spec needs resourceAttributes or nonResourceAttributes")
    if isinstance(plain, dict):
        return rbac.AccessRequest(str(plain.get("verb", "")), path=str(plain.get("path", "")))
    text = {key: str((attributes or {}).get(key) or "") for key in ("verb", "group", "resource", "subresource")}
    place = {key: str((attributes or {}).get(key) or "") for key in ("namespace", "name")}
    return rbac.AccessRequest(**text, **place)
