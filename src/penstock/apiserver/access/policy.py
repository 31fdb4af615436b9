"""RBAC authorization by the stored roles and bindings; members of system:masters may do everything.

A policy is an immutable snapshot of all roles and bindings that caches its decisions. A change of a role or binding
creates a new policy with an empty cache. So a repeated decision is one lookup, and a new one is a walk over the
bindings of one user.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from penstock.apiserver import errors
from penstock.apiserver.access.identity import User
from penstock.apiserver.access.rules import AccessRequest, allows
from penstock.apiserver.documents import decode
from penstock.apiserver.store.storage import Change, Key, Store
from penstock.kube.kinds import Obj

GROUP = "rbac.authorization.k8s.io"
ROLES, ROLE_BINDINGS = f"roles.{GROUP}", f"rolebindings.{GROUP}"
CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS = f"clusterroles.{GROUP}", f"clusterrolebindings.{GROUP}"
RESOURCES = (ROLES, ROLE_BINDINGS, CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS)
MAX_CACHED = 4096
"""Cached decisions per user, and cached users: a client that keeps asking for new names must not fill the memory."""
MAX_CACHED_CHARACTERS = 512
"""Characters of a request that is cached, for the same reason."""


class Decision(NamedTuple):
    """Whether the request is allowed, and by which binding."""

    allowed: bool
    reason: str = ""


class RoleMissing(LookupError):
    """A binding names a role that does not exist."""


class _Grant(NamedTuple):
    """What one binding gives to one user."""

    namespace: str
    """Where it holds; empty: everywhere."""
    source: str
    rules: tuple[Obj, ...]


@dataclass
class _Grants:
    """Everything granted to one user, and the decisions made from it."""

    granted: list[_Grant]
    problems: list[tuple[str, str]]
    """Namespace and text of each binding whose role is missing."""
    decisions: dict[AccessRequest, Decision] = field(default_factory=dict)

    def decide(self, request: AccessRequest) -> Decision:
        for grant in self.granted:
            if grant.namespace in ("", request.namespace) and any(allows(rule, request) for rule in grant.rules):
                return Decision(True, f"RBAC: allowed by {grant.source}")
        missing = [text for namespace, text in self.problems if namespace in ("", request.namespace)]
        problems = missing[0] if len(missing) == 1 else f"[{', '.join(missing)}]"
        return Decision(False, f"RBAC: {problems}" if missing else "")


class AccessPolicy:
    """A snapshot of all roles and bindings."""

    def __init__(self, objects: Mapping[Key, Obj]) -> None:
        self._objects = objects
        self._users: dict[tuple[str, tuple[str, ...]], _Grants] = {}

    def decide(self, user: User, request: AccessRequest) -> Decision:
        """Whether the user may do that."""
        if user.is_master:
            return Decision(True)
        grants = self._grants(user)
        found = grants.decisions.get(request)
        if found is None:
            found = grants.decide(request)
            if len(grants.decisions) >= MAX_CACHED:
                grants.decisions.clear()
            if sum(map(len, request)) <= MAX_CACHED_CHARACTERS:
                grants.decisions[request] = found
        return found

    def rules_of(self, user: User, namespace: str) -> list[Obj]:
        """Every rule that holds for the user in the namespace; those that hold everywhere if it is empty."""
        return [
            rule for grant in self._grants(user).granted if grant.namespace in ("", namespace) for rule in grant.rules
        ]

    def rules_of_role(self, reference: Obj, namespace: str) -> tuple[Obj, ...]:
        """The rules of the role that a binding refers to; raises RoleMissing."""
        name = reference.get("name", "")
        key = (ROLES, namespace, name) if reference.get("kind") == "Role" else (CLUSTER_ROLES, "", name)
        role = self._objects.get(key)
        if role is None:
            kind = "role" if key[0] == ROLES else "clusterrole"
            raise RoleMissing(f'{kind}.{GROUP} "{name}" not found')
        return tuple(role.get("rules") or ())

    def _grants(self, user: User) -> _Grants:
        known = self._users.get((user.name, user.groups))
        if known is None:
            if len(self._users) >= MAX_CACHED:
                self._users.clear()
            known = self._users[(user.name, user.groups)] = self._collect(user)
        return known

    def _collect(self, user: User) -> _Grants:
        grants = _Grants([], [])
        for subject in _subjects_of(user):
            for namespace, binding, source in self._bindings.get(subject, ()):
                try:
                    rules = self.rules_of_role(binding["roleRef"], namespace)
                except RoleMissing as missing:
                    grants.problems.append((namespace, str(missing)))
                else:
                    grants.granted.append(_Grant(namespace, source, rules))
        grants.granted.sort(key=lambda grant: grant.namespace)
        return grants

    @cached_property
    def _bindings(self) -> dict[tuple[str, str], list[tuple[str, Obj, str]]]:
        """Namespace, binding and its description, by subject."""
        found: dict[tuple[str, str], list[tuple[str, Obj, str]]] = {}
        for (resource, namespace, _), binding in self._objects.items():
            if resource in (ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS):
                for subject, description in _named_subjects(binding, namespace):
                    source = f"{_described(binding, namespace)} to {description}"
                    found.setdefault(subject, []).append((namespace, binding, source))
        return found


class Authorizer:
    """The policy of the roles and bindings as stored. The writer's thread and the event loop both read it."""

    def __init__(self) -> None:
        self.policy = AccessPolicy({})
        self._objects: dict[Key, Obj] = {}

    async def load(self, store: Store) -> None:
        """The roles and bindings as stored."""
        for resource in RESOURCES:
            for body in (await store.page(resource, None)).bodies:
                obj = decode(body)
                metadata = obj["metadata"]
                self._objects[(resource, metadata.get("namespace", ""), metadata["name"])] = obj
        self.policy = AccessPolicy(dict(self._objects))

    def follow(self, changes: Iterable[Change]) -> None:
        """Applies committed changes of roles and bindings."""
        relevant = [change for change in changes if change.resource in RESOURCES]
        for change in relevant:
            key = (change.resource, change.namespace, change.name)
            if change.type == "DELETED":
                self._objects.pop(key, None)
            else:
                self._objects[key] = decode(change.body)
        if relevant:
            self.policy = AccessPolicy(dict(self._objects))

    def decide(self, user: User, request: AccessRequest) -> Decision:
        """Whether the user may do that now."""
        return self.policy.decide(user, request)

    def demand(self, user: User, request: AccessRequest) -> None:
        """Raises 403, worded as Kubernetes does, unless the user may do that."""
        granted, reason = self.policy.decide(user, request)
        if granted:
            return
        why = denial(user, request) + (f": {reason}" if reason else "")
        if request.path:
            raise errors.ApiError(403, "Forbidden", f"forbidden: {why}")
        raise errors.forbidden(request.group, request.resource, request.name, why)


def denial(user: User, request: AccessRequest) -> str:
    """Who cannot do what, as Kubernetes words it."""
    if request.path:
        return f'User "{user.name}" cannot {request.verb} path "{request.path}"'
    where = f'in the namespace "{request.namespace}"' if request.namespace else "at the cluster scope"
    what = f'resource "{request.full_resource}" in API group "{request.group}"'
    return f'User "{user.name}" cannot {request.verb} {what} {where}'


def _subjects_of(user: User) -> Iterator[tuple[str, str]]:
    yield "User", user.name
    for group in user.groups:
        yield "Group", group


def _named_subjects(binding: Obj, namespace: str) -> Iterator[tuple[tuple[str, str], str]]:
    """Each subject of a binding as a key, and its description. A ServiceAccount is the user of its tokens."""
    for subject in binding.get("subjects") or ():
        kind, name = subject.get("kind", ""), subject.get("name", "")
        if kind == "ServiceAccount":
            home = subject.get("namespace") or namespace
            yield ("User", f"system:serviceaccount:{home}:{name}"), f'ServiceAccount "{name}/{home}"'
        elif kind in ("User", "Group"):
            yield (kind, name), f'{kind} "{name}"'


def _described(binding: Obj, namespace: str) -> str:
    reference, name = binding["roleRef"], binding["metadata"]["name"]
    which = f'RoleBinding "{name}/{namespace}"' if namespace else f'ClusterRoleBinding "{name}"'
    return f'{which} of {reference.get("kind")} "{reference.get("name")}"'
