"""Creates what exists from the start: namespaces, the Node, definitions, ConfigMaps, roles. Runs at every start.

The Node and definitions are updated, since they belong to the program. As in Kubernetes, roles and bindings get what
they lack: additions of users stay, and an object whose annotation says so is not touched. Everything else belongs to
the user once it exists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.resources import files

from penstock.apiserver.access import policy
from penstock.apiserver.access.identity import MASTERS
from penstock.apiserver.access.rules import uncovered
from penstock.apiserver.cluster.aggregation import Aggregation
from penstock.apiserver.cluster.node import refreshed
from penstock.apiserver.documents import meta
from penstock.apiserver.kinds import custom_kinds
from penstock.apiserver.kinds.registry import Registry, ServedKind
from penstock.apiserver.store.storage import Store, Transaction
from penstock.apiserver.verbs.writing import Verbs, WriteTarget
from penstock.kube.kinds import Obj
from penstock.runtime.yaml_files import documents

AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate"
_FILES = ("kubernetes.yaml", "knative.yaml", "penstock.yaml")
_BOOTSTRAPPED = {"kubernetes.io/bootstrapping": "rbac-defaults"}
NAMESPACES = ("default", "kube-system", "knative-eventing")
_USER = "system:apiserver"


def roles() -> list[Obj]:
    """Every bootstrap role and binding, and the ServiceAccounts that they name."""
    folder = files("penstock.apiserver.cluster").joinpath("roles")
    return [
        _marked(document, name == "kubernetes.yaml") for name in _FILES for document in documents(folder.joinpath(name))
    ]


def reconciled(old: Obj, expected: Obj) -> Obj:
    """The stored object with what is missing from it."""
    details, wanted = meta(old), meta(expected)
    if (details.get("annotations") or {}).get(AUTOUPDATE) == "false":
        return old
    for field in ("labels", "annotations"):
        if wanted.get(field):
            details[field] = {**(details.get(field) or {}), **wanted[field]}
    if "aggregationRule" in expected:
        present = (old.get("aggregationRule") or {}).get("clusterRoleSelectors") or []
        wanted_selectors = expected["aggregationRule"]["clusterRoleSelectors"]
        selectors = [*present, *(one for one in wanted_selectors if one not in present)]
        return {**old, "aggregationRule": {"clusterRoleSelectors": selectors}}
    if "rules" in expected:
        held = old.get("rules") or []
        return {**old, "rules": [*held, *(rule for rule in expected["rules"] if uncovered(held, [rule]))]}
    if "subjects" in expected:
        held = old.get("subjects") or []
        return {**old, "subjects": [*held, *(one for one in expected["subjects"] if one not in held)]}
    return old


def _marked(document: Obj, bootstrapped: bool) -> Obj:
    details = meta(document)
    if bootstrapped:
        details["labels"] = {**_BOOTSTRAPPED, **(details.get("labels") or {})}
    else:
        details["labels"] = {**(details.get("labels") or {}), "app.kubernetes.io/name": "knative-eventing"}
    if document["kind"] != "ServiceAccount":
        details["annotations"] = {AUTOUPDATE: "true"}
    return document


async def prepare(
    store: Store, verbs: Verbs, registry: Registry, *, node: Obj, definitions: Iterable[Obj], objects: Iterable[Obj]
) -> None:
    """Creates and updates the bootstrap objects, in one transaction."""
    definitions, objects = list(definitions), list(objects)
    await store.write(lambda tx: _prepare(tx, verbs, registry, node=node, definitions=definitions, objects=objects))


def _prepare(
    tx: Transaction, verbs: Verbs, registry: Registry, *, node: Obj, definitions: list[Obj], objects: list[Obj]
) -> None:
    for name in NAMESPACES:
        _create_if_missing(tx, verbs, kind_of(registry, "", "Namespace"), {"metadata": {"name": name}})
    _create_or_update(tx, verbs, kind_of(registry, "", "Node"), node, refreshed)
    for definition in definitions:
        _create_or_update(
            tx, verbs, kind_of(registry, custom_kinds.GROUP, custom_kinds.KIND), definition, _refreshed_definition
        )
    for role in roles():
        _create_or_update(tx, verbs, _kind_of(registry, role), role, reconciled)
    Aggregation(verbs, kind_of(registry, policy.GROUP, "ClusterRole")).update_outdated(tx)
    for obj in objects:
        _create_if_missing(tx, verbs, _kind_of(registry, obj), obj)


def _create_if_missing(tx: Transaction, verbs: Verbs, kind: ServedKind, obj: Obj) -> None:
    namespace, name = meta(obj).get("namespace", ""), meta(obj)["name"]
    if tx.get(kind.resource, namespace, name) is None:
        verbs.create(
            tx, WriteTarget(kind, namespace, "", _USER, _USER, field_validation="Ignore", groups=(MASTERS,)), obj
        )


def _create_or_update(
    tx: Transaction, verbs: Verbs, kind: ServedKind, obj: Obj, refreshed: Callable[[Obj, Obj], Obj]
) -> None:
    """Creates the object, or stores the result of `refreshed` of the stored object and this one."""
    namespace, name = meta(obj).get("namespace", ""), meta(obj)["name"]
    if tx.get(kind.resource, namespace, name) is None:
        _create_if_missing(tx, verbs, kind, obj)
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
    """The kind of this name. Raises LookupError."""
    kind = registry.by_kind(group, name)
    if kind is None:
        raise LookupError(f"the server does not know {name} in {group or 'the core group'}")
    return kind
