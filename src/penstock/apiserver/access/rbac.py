"""May this subject do that? Stored RBAC rules decide; masters may do everything.

Used for access reviews, and for requests of users other than the administrator and the controllers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.apiserver.access.identity import User
from penstock.apiserver.documents import Obj

GROUP = "rbac.authorization.k8s.io"


@dataclass(frozen=True)
class AccessRequest:
    """What somebody wants to do; `path` is set for addresses that are no resources."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""


@dataclass(frozen=True)
class Rules:
    """The stored RBAC objects."""

    roles: Mapping[tuple[str, str], Obj]
    """By namespace and name."""
    role_bindings: Iterable[Obj]
    cluster_roles: Mapping[str, Obj]
    cluster_role_bindings: Iterable[Obj]


def allowed(user: User, request: AccessRequest, rules: Rules) -> tuple[bool, str]:
    """Whether, and because of what."""
    if user.is_master:
        return True, "system:masters may do everything"
    for binding in rules.cluster_role_bindings:
        if _binds(binding, user, "") and _any_rule(_rules_of(binding, "", rules), request):
            return True, f'RBAC: allowed by ClusterRoleBinding "{binding["metadata"]["name"]}"'
    for binding in rules.role_bindings if request.namespace else ():
        namespace = binding["metadata"]["namespace"]
        if namespace != request.namespace or not _binds(binding, user, namespace):
            continue
        if _any_rule(_rules_of(binding, namespace, rules), request):
            return True, f'RBAC: allowed by RoleBinding "{binding["metadata"]["name"]}/{namespace}"'
    return False, ""


def refusal(user: User, request: AccessRequest) -> str:
    """Why not, as Kubernetes says it."""
    if request.path:
        return f'User "{user.name}" cannot {request.verb} path "{request.path}"'
    resource = request.resource + (f"/{request.subresource}" if request.subresource else "")
    where = f'in the namespace "{request.namespace}"' if request.namespace else "at the cluster scope"
    return f'User "{user.name}" cannot {request.verb} resource "{resource}" in API group "{request.group}" {where}'


def _binds(binding: Obj, user: User, namespace: str) -> bool:
    for subject in binding.get("subjects") or ():
        kind, name = subject.get("kind"), subject.get("name", "")
        if kind == "User" and name == user.name:
            return True
        if kind == "Group" and name in user.groups:
            return True
        account = f"system:serviceaccount:{subject.get('namespace') or namespace}:{name}"
        if kind == "ServiceAccount" and account == user.name:
            return True
    return False


def _rules_of(binding: Obj, namespace: str, rules: Rules) -> list[Obj]:
    reference = binding.get("roleRef") or {}
    name = reference.get("name", "")
    if reference.get("kind") == "Role":
        role = rules.roles.get((namespace, name))
        return list((role or {}).get("rules") or ())
    return _cluster_rules(name, rules, set())


def _cluster_rules(name: str, rules: Rules, seen: set[str]) -> list[Obj]:
    role = rules.cluster_roles.get(name)
    if role is None or name in seen:
        return []
    seen.add(name)
    selectors = (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or ()
    found = list(role.get("rules") or ())
    for other in rules.cluster_roles.values():
        labels = other["metadata"].get("labels") or {}
        if any(_selects(selector, labels) for selector in selectors):
            found += _cluster_rules(other["metadata"]["name"], rules, seen)
    return found


def _selects(selector: Obj, labels: Mapping[str, Any]) -> bool:
    """A label selector object: matchLabels and matchExpressions."""
    return all(labels.get(key) == value for key, value in (selector.get("matchLabels") or {}).items()) and all(
        _expression_holds(one, labels.get(one["key"])) for one in selector.get("matchExpressions") or ()
    )


def _expression_holds(expression: Obj, value: Any) -> bool:
    values = expression.get("values") or ()
    return {
        "In": value in values,
        "NotIn": value not in values,
        "Exists": value is not None,
        "DoesNotExist": value is None,
    }.get(expression["operator"], False)


def _any_rule(found: Iterable[Obj], request: AccessRequest) -> bool:
    return any(_rule_allows(rule, request) for rule in found)


def _rule_allows(rule: Obj, request: AccessRequest) -> bool:
    if not _listed(rule.get("verbs"), request.verb):
        return False
    if request.path:
        return any(
            path == request.path or (path.endswith("*") and request.path.startswith(path[:-1]))
            for path in rule.get("nonResourceURLs") or ()
        )
    resource = request.resource + (f"/{request.subresource}" if request.subresource else "")
    names = rule.get("resourceNames") or ()
    resources = rule.get("resources") or ()
    return (
        _listed(rule.get("apiGroups"), request.group)
        and (_listed(resources, resource) or (request.subresource != "" and f"*/{request.subresource}" in resources))
        and (not names or request.name in names)
    )


def _listed(values: Iterable[str] | None, wanted: str) -> bool:
    values = values or ()
    return "*" in values or wanted in values
