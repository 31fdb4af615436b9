"""What exists from the start: namespaces, the Node, the given definitions, ConfigMaps and roles. Runs at every start.

The Node and definitions are brought up to date, since they belong to the program; the rest is the user's once it
exists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from penstock.apiserver.cluster.node import refreshed
from penstock.apiserver.documents import Obj, meta
from penstock.apiserver.kinds import custom_kinds
from penstock.apiserver.kinds.registry import Registry, ServedKind
from penstock.apiserver.store.storage import Store, Transaction
from penstock.apiserver.verbs.writing import Verbs, WriteTarget

NAMESPACES = ("default", "kube-system", "knative-eventing")
_USER = "system:apiserver"
_RBAC = "rbac.authorization.k8s.io"


async def prepare(
    store: Store, verbs: Verbs, registry: Registry, *, node: Obj, definitions: Iterable[Obj], objects: Iterable[Obj]
) -> None:
    """Makes what is missing, and knows the kinds of every stored definition."""
    definitions, objects = list(definitions), list(objects)
    await store.write(lambda tx: _prepare(tx, verbs, registry, node=node, definitions=definitions, objects=objects))


def _prepare(
    tx: Transaction, verbs: Verbs, registry: Registry, *, node: Obj, definitions: list[Obj], objects: list[Obj]
) -> None:
    for name in NAMESPACES:
        _ensure(tx, verbs, _kind(registry, "", "Namespace"), {"metadata": {"name": name}})
    _bring_up_to_date(tx, verbs, _kind(registry, "", "Node"), node, refreshed)
    for definition in definitions:
        _bring_up_to_date(
            tx, verbs, _kind(registry, custom_kinds.GROUP, custom_kinds.KIND), definition, _refreshed_definition
        )
    for obj in [*_roles(), *objects]:
        group = obj["apiVersion"].rpartition("/")[0]
        _ensure(tx, verbs, _kind(registry, group, obj["kind"]), obj)


def _ensure(tx: Transaction, verbs: Verbs, kind: ServedKind, obj: Obj) -> None:
    namespace, name = meta(obj).get("namespace", ""), meta(obj)["name"]
    if tx.get(kind.resource, namespace, name) is None:
        verbs.create(tx, WriteTarget(kind, namespace, "", _USER, _USER, field_validation="Ignore"), obj)


def _bring_up_to_date(
    tx: Transaction, verbs: Verbs, kind: ServedKind, obj: Obj, refreshed: Callable[[Obj, Obj], Obj]
) -> None:
    """Makes the object, or stores what `refreshed` makes of the stored one and this one."""
    name = meta(obj)["name"]
    if tx.get(kind.resource, "", name) is None:
        _ensure(tx, verbs, kind, obj)
        return
    target = WriteTarget(kind, "", name, _USER, _USER, field_validation="Ignore")
    verbs.update(tx, target, lambda old: refreshed(old, obj))


def _refreshed_definition(old: Obj, new: Obj) -> Obj:
    details = meta(old)
    details["labels"] = {**(details.get("labels") or {}), **(meta(new).get("labels") or {})}
    return {**old, "spec": new["spec"]}


def _kind(registry: Registry, group: str, name: str) -> ServedKind:
    kind = registry.by_kind(group, name)
    if kind is None:
        raise LookupError(f"the server does not know {name} in {group or 'the core group'}")
    return kind


def _roles() -> list[Obj]:
    """The role of administrators, so that bindings to it mean what they mean elsewhere."""
    everything = [
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
        {"nonResourceURLs": ["*"], "verbs": ["*"]},
    ]
    return [
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "cluster-admin"},
            "rules": everything,
        },
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "cluster-admin"},
            "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": _RBAC, "kind": "Group", "name": "system:masters"}],
        },
    ]
