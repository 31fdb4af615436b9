"""What exists from the start: namespaces, the Node, the given definitions, ConfigMaps and roles. Runs at every start.

The Node and definitions are brought up to date, since they belong to the program; roles get what they lack; the rest
is the user's once it exists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from penstock.apiserver.access import policy
from penstock.apiserver.access.identity import MASTERS
from penstock.apiserver.cluster import bootstrap_roles
from penstock.apiserver.cluster.aggregation import Aggregation
from penstock.apiserver.cluster.node import refreshed
from penstock.apiserver.documents import meta
from penstock.apiserver.kinds import custom_kinds
from penstock.apiserver.kinds.registry import Registry, ServedKind
from penstock.apiserver.store.storage import Store, Transaction
from penstock.apiserver.verbs.writing import Verbs, WriteTarget
from penstock.kube.kinds import Obj

NAMESPACES = ("default", "kube-system", "knative-eventing")
_USER = "system:apiserver"


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
        _ensure(tx, verbs, kind_of(registry, "", "Namespace"), {"metadata": {"name": name}})
    _bring_up_to_date(tx, verbs, kind_of(registry, "", "Node"), node, refreshed)
    for definition in definitions:
        _bring_up_to_date(
            tx, verbs, kind_of(registry, custom_kinds.GROUP, custom_kinds.KIND), definition, _refreshed_definition
        )
    for role in bootstrap_roles.roles():
        _bring_up_to_date(tx, verbs, _kind_of(registry, role), role, bootstrap_roles.reconciled)
    Aggregation(verbs, kind_of(registry, policy.GROUP, "ClusterRole")).bring_up_to_date(tx)
    for obj in objects:
        _ensure(tx, verbs, _kind_of(registry, obj), obj)


def _ensure(tx: Transaction, verbs: Verbs, kind: ServedKind, obj: Obj) -> None:
    namespace, name = meta(obj).get("namespace", ""), meta(obj)["name"]
    if tx.get(kind.resource, namespace, name) is None:
        verbs.create(
            tx, WriteTarget(kind, namespace, "", _USER, _USER, field_validation="Ignore", groups=(MASTERS,)), obj
        )


def _bring_up_to_date(
    tx: Transaction, verbs: Verbs, kind: ServedKind, obj: Obj, refreshed: Callable[[Obj, Obj], Obj]
) -> None:
    """Makes the object, or stores what `refreshed` makes of the stored one and this one."""
    namespace, name = meta(obj).get("namespace", ""), meta(obj)["name"]
    if tx.get(kind.resource, namespace, name) is None:
        _ensure(tx, verbs, kind, obj)
        return
    target = WriteTarget(kind, namespace, name, _USER, _USER, field_validation="Ignore", groups=(MASTERS,))
    verbs.update(tx, target, lambda old: refreshed(old, obj))


def _refreshed_definition(old: Obj, new: Obj) -> Obj:
    details = meta(old)
    details["labels"] = {**(details.get("labels") or {}), **(meta(new).get("labels") or {})}
    return {**old, "spec": new["spec"]}


def _kind_of(registry: Registry, obj: Obj) -> ServedKind:
    return kind_of(registry, obj["apiVersion"].rpartition("/")[0], obj["kind"])


def kind_of(registry: Registry, group: str, name: str) -> ServedKind:
    """The kind of this name; the server cannot do without."""
    kind = registry.by_kind(group, name)
    if kind is None:
        raise LookupError(f"the server does not know {name} in {group or 'the core group'}")
    return kind
