"""Deletion: grace periods, finalizers, garbage collection of dependents, and contents of namespaces and definitions.

All of it happens in the transaction of the delete, so a crash leaves either nothing or all of it done. A deletion that
has to wait (for a finalizer, a Pod's node, a dependent) is finished by the write that removes the last obstacle. Only a
namespace is emptied later and in parts (`namespace_finalizer`), as on a cluster; that it is terminating is stored.

An object may be owned by objects of its own namespace and by cluster-scoped ones. As in Kubernetes, an owner in another
namespace counts as one that does not exist; and a cluster-scoped object is never collected because of an owner in a
namespace.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from penstock.apiserver.documents import meta
from penstock.apiserver.kinds import custom_kinds
from penstock.apiserver.store.storage import PART_BYTES, Transaction
from penstock.kube.kinds import Obj
from penstock.runtime.times import rfc3339

NAMESPACES, PODS, SERVICE_ACCOUNTS = "namespaces", "pods", "serviceaccounts"
FOREGROUND = "foregroundDeletion"
DEFAULT_ACCOUNT = "default"


@dataclass(frozen=True)
class DeleteOptions:
    """The options of a delete request."""

    policy: str = "Background"
    """`Background`, `Foreground` or `Orphan`."""
    grace_seconds: int | None = None
    uid: str | None = None
    version: str | None = None


class Deletion:
    """One delete, or one removal of a finalizer, with everything that it causes."""

    def __init__(self, tx: Transaction, now: datetime, restore_account: Callable[[Transaction, str], None]) -> None:
        self._tx, self._now = tx, now
        self._restore_account = restore_account
        self._removed: deque[tuple[str, Obj]] = deque()

    def delete(self, resource: str, obj: Obj, options: DeleteOptions) -> Obj | None:
        """Deletes; the object if it still exists, None if it has been removed."""
        self._begin(resource, obj, options)
        self._follow()
        return self._tx.get(resource, meta(obj).get("namespace", ""), meta(obj)["name"])

    def release(self, resource: str, obj: Obj) -> bool:
        """Removes an object whose deletion had to wait, if nothing holds it any longer; whether it was removed."""
        if not self._ready(resource, obj):
            return False
        self._remove(resource, obj)
        self._follow()
        return True

    def collect(self, resource: str, obj: Obj) -> None:
        """Deletes an object if it names owners and none of them exists and stays.

        A controller may create a dependent just after the foreground deletion of its owner began; the owner would wait
        for it forever.
        """
        owners = meta(obj).get("ownerReferences") or ()
        if owners and not any(self._keeps(owner["uid"], obj) for owner in owners):
            self._begin(resource, obj, DeleteOptions())
            self._follow()

    def _keeps(self, owner: str, dependent: Obj) -> bool:
        """Whether the owner exists for the dependent, and is not itself waiting for its dependents to be deleted."""
        found = self._tx.by_uid(owner)
        if found is None:
            return False
        if not _may_own(found[1], dependent):
            return not _namespace(dependent)
        return FOREGROUND not in (meta(found[1]).get("finalizers") or ())

    def empty(self, namespace: str, after: tuple[str, str], limit: int) -> tuple[str, str] | None:
        """Deletes the next objects of a terminating namespace, no more than fit into memory together. Returns the key
        to continue after; None if the last object has been deleted."""
        holder = self._tx.get(NAMESPACES, "", namespace)
        # The namespace may have been removed meanwhile, and another created with its name.
        if holder is None or not meta(holder).get("deletionTimestamp"):
            return None
        keys = self._tx.keys_of_namespace(namespace, after=after, limit=limit)
        for count, key in enumerate(keys, 1):
            self._delete_key(*key)
            self._follow()
            if self._tx.changed_bytes >= PART_BYTES and count < len(keys):
                return key[0], key[2]
        return (keys[-1][0], keys[-1][2]) if len(keys) == limit else None

    def _begin(self, resource: str, obj: Obj, options: DeleteOptions) -> None:
        metadata = meta(obj)
        finalizers = list(metadata.get("finalizers") or ())
        if options.policy == "Orphan":
            self._orphan(obj)
        elif options.policy == "Foreground" and FOREGROUND not in finalizers and self._blocking(obj):
            finalizers.append(FOREGROUND)
        if finalizers:
            metadata["finalizers"] = finalizers
        grace = self._grace(resource, obj, options)
        stays = bool(finalizers) or grace > 0 or self._has_contents(resource, obj)
        if not stays:
            self._remove(resource, obj)
            return
        self._mark(resource, obj, grace)
        if FOREGROUND in finalizers:
            for uid in self._blocking(obj):
                self._delete_uid(uid, "Foreground")
        if resource == NAMESPACES:
            # Clients delete a namespace and then, one by one, what they had created in it, so only a namespace with
            # nothing but its default account is emptied at once.
            account = (SERVICE_ACCOUNTS, metadata["name"], DEFAULT_ACCOUNT)
            if self._tx.keys_of_namespace(metadata["name"], limit=2) == [account]:
                self._delete_key(*account)
        elif resource == custom_kinds.RESOURCE:
            for instance, namespace, name in self._tx.keys_of_resource(metadata["name"]):
                self._delete_key(instance, namespace, name)

    def _mark(self, resource: str, obj: Obj, grace: int) -> None:
        metadata = meta(obj)
        already = metadata.get("deletionTimestamp")
        due = rfc3339(self._now + timedelta(seconds=grace))
        if already and metadata.get("deletionGracePeriodSeconds", 0) <= grace:
            return
        metadata["deletionTimestamp"] = due if grace or not already else min(due, already)
        metadata["deletionGracePeriodSeconds"] = grace
        if resource == NAMESPACES:
            obj["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}
        self._tx.put(resource, obj)

    def _grace(self, resource: str, obj: Obj, options: DeleteOptions) -> int:
        """The grace period of a Pod on a node in seconds; 0 for everything else."""
        if resource != PODS or not (obj.get("spec") or {}).get("nodeName"):
            return 0
        if (obj.get("status") or {}).get("phase") in ("Succeeded", "Failed") and options.grace_seconds is None:
            return 0
        if options.grace_seconds is not None:
            return max(0, options.grace_seconds)
        return int((obj.get("spec") or {}).get("terminationGracePeriodSeconds", 30))

    def _has_contents(self, resource: str, obj: Obj) -> bool:
        name = meta(obj)["name"]
        if resource == NAMESPACES:
            return not self._tx.namespace_empty(name)
        return resource == custom_kinds.RESOURCE and not self._tx.resource_empty(name)

    def _ready(self, resource: str, obj: Obj) -> bool:
        metadata = meta(obj)
        return (
            bool(metadata.get("deletionTimestamp"))
            and not metadata.get("finalizers")
            and not metadata.get("deletionGracePeriodSeconds")
            and not self._has_contents(resource, obj)
        )

    def _remove(self, resource: str, obj: Obj) -> None:
        self._removed.append((resource, self._tx.remove(resource, obj)))

    def _follow(self) -> None:
        while self._removed:
            resource, obj = self._removed.popleft()
            self._collect_dependents(obj)
            self._unblock_owners(obj)
            self._finish_container(NAMESPACES, meta(obj).get("namespace", ""))
            self._finish_container(custom_kinds.RESOURCE, resource)
            if resource == SERVICE_ACCOUNTS and meta(obj)["name"] == DEFAULT_ACCOUNT:
                self._keep_default_account(meta(obj)["namespace"])

    def _dependents(self, owner: Obj) -> Iterator[tuple[str, Obj]]:
        """The objects that the owner owns, each read when it is needed: earlier ones may have changed it."""
        for uid in self._tx.dependents(meta(owner)["uid"]):
            found = self._tx.by_uid(uid)
            if found and _may_own(owner, found[1]):
                yield found

    def _exists(self, owner: str, dependent: Obj) -> bool:
        found = self._tx.by_uid(owner)
        return found is not None and (_may_own(found[1], dependent) or not _namespace(dependent))

    def _collect_dependents(self, owner: Obj) -> None:
        for resource, obj in self._dependents(owner):
            left = [ref for ref in meta(obj)["ownerReferences"] if self._exists(ref["uid"], obj)]
            if left:
                meta(obj)["ownerReferences"] = left
                self._tx.put(resource, obj)
            else:
                self._begin(resource, obj, DeleteOptions())

    def _unblock_owners(self, obj: Obj) -> None:
        for owner in meta(obj).get("ownerReferences") or ():
            found = self._tx.by_uid(owner["uid"])
            if not found or not _may_own(found[1], obj):
                continue
            resource, holder = found
            finalizers = meta(holder).get("finalizers") or []
            if FOREGROUND in finalizers and not self._blocking(holder):
                meta(holder)["finalizers"] = [name for name in finalizers if name != FOREGROUND]
                if self._ready(resource, holder):
                    self._remove(resource, holder)
                else:
                    self._tx.put(resource, holder)

    def _finish_container(self, resource: str, name: str) -> None:
        container = self._tx.get(resource, "", name) if name else None
        if container and self._ready(resource, container):
            self._remove(resource, container)

    def _keep_default_account(self, namespace: str) -> None:
        holder = self._tx.get(NAMESPACES, "", namespace)
        if holder and not meta(holder).get("deletionTimestamp"):
            self._restore_account(self._tx, namespace)

    def _orphan(self, owner: Obj) -> None:
        for resource, obj in self._dependents(owner):
            kept = [ref for ref in meta(obj)["ownerReferences"] if ref["uid"] != meta(owner)["uid"]]
            meta(obj)["ownerReferences"] = kept
            self._tx.put(resource, obj)

    def _blocking(self, owner: Obj) -> list[str]:
        """The uids of dependents that a foreground deletion of the owner waits for."""
        uid = meta(owner)["uid"]
        return [
            meta(obj)["uid"]
            for _, obj in self._dependents(owner)
            if any(ref["uid"] == uid and ref.get("blockOwnerDeletion") for ref in meta(obj)["ownerReferences"])
        ]

    def _delete_uid(self, uid: str, policy: str) -> None:
        found = self._tx.by_uid(uid)
        if found:
            self._begin(*found, DeleteOptions(policy))

    def _delete_key(self, resource: str, namespace: str, name: str) -> None:
        obj = self._tx.get(resource, namespace, name)
        if obj:
            self._begin(resource, obj, DeleteOptions())


def _may_own(owner: Obj, dependent: Obj) -> bool:
    return _namespace(owner) in ("", _namespace(dependent))


def _namespace(obj: Obj) -> str:
    return meta(obj).get("namespace") or ""
