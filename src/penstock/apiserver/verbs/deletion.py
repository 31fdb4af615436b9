"""How objects go: grace, finalizers, what they own, and namespaces and definitions with everything in them.

All of it happens inside the transaction of the delete, so a crash leaves either nothing or all of it done. What has to
wait (a finalizer, a Pod's node, a dependent in the way) is finished by the write that takes the last obstacle away.
Only a namespace is emptied later and in parts (`emptying`), as on a cluster: that it is going is stored with it.

An object may be owned by objects of its own namespace and by those that are in none. As in Kubernetes, a reference to
an owner in another namespace is one to an owner that does not exist; and an object that is in no namespace itself is
never collected because of an owner that is in one.
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
    """What the client asked for."""

    policy: str = "Background"
    """`Background`, `Foreground` or `Orphan`."""
    grace_seconds: int | None = None
    uid: str | None = None
    version: str | None = None


class Deletion:
    """One delete, or one removal of a finalizer, and everything that follows from it."""

    def __init__(self, tx: Transaction, now: datetime, restore_account: Callable[[Transaction, str], None]) -> None:
        self._tx, self._now = tx, now
        self._restore_account = restore_account
        self._gone: deque[tuple[str, Obj]] = deque()

    def delete(self, resource: str, obj: Obj, options: DeleteOptions) -> Obj | None:
        """Deletes; the object if it stays for a while, None if it is gone."""
        self._begin(resource, obj, options)
        self._follow()
        return self._tx.get(resource, meta(obj).get("namespace", ""), meta(obj)["name"])

    def release(self, resource: str, obj: Obj) -> bool:
        """Removes an object whose deletion waited, if nothing holds it any more; whether it is gone."""
        if not self._ready(resource, obj):
            return False
        self._vanish(resource, obj)
        self._follow()
        return True

    def collect(self, resource: str, obj: Obj) -> None:
        """Deletes an object if it names owners and none of them exists and stays.

        A controller may make a dependent just after the foreground deletion of its owner began; the owner would wait
        for it for ever.
        """
        owners = meta(obj).get("ownerReferences") or ()
        if owners and not any(self._keeps(owner["uid"], obj) for owner in owners):
            self._begin(resource, obj, DeleteOptions())
            self._follow()

    def _keeps(self, owner: str, dependent: Obj) -> bool:
        """Whether the owner exists for the dependent, and does not wait for its dependents to go."""
        found = self._tx.by_uid(owner)
        if found is None:
            return False
        if not _may_own(found[1], dependent):
            return not _namespace(dependent)
        return FOREGROUND not in (meta(found[1]).get("finalizers") or ())

    def empty(self, namespace: str, after: tuple[str, str], limit: int) -> tuple[str, str] | None:
        """Deletes the next objects of a namespace that is going, no more than fit into memory together; behind which
        to go on, None if that was the last."""
        holder = self._tx.get(NAMESPACES, "", namespace)
        # The name may be that of a new namespace by now.
        if holder is None or not meta(holder).get("deletionTimestamp"):
            return None
        keys = self._tx.keys_of_namespace(namespace, after=after, limit=limit)
        for place, key in enumerate(keys, 1):
            self._delete_key(*key)
            self._follow()
            if self._tx.changed_bytes >= PART_BYTES and place < len(keys):
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
            self._vanish(resource, obj)
            return
        self._mark(resource, obj, grace)
        if FOREGROUND in finalizers:
            for uid in self._blocking(obj):
                self._delete_uid(uid, "Foreground")
        if resource == NAMESPACES:
            # Clients delete a namespace and then, one by one, what they had put into it; so that stays for a while.
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
        """Seconds for which a Pod on a node stays; nothing else is given grace."""
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

    def _vanish(self, resource: str, obj: Obj) -> None:
        self._gone.append((resource, self._tx.remove(resource, obj)))

    def _follow(self) -> None:
        while self._gone:
            resource, obj = self._gone.popleft()
            self._collect_dependents(obj)
            self._unblock_owners(obj)
            self._finish_container(NAMESPACES, meta(obj).get("namespace", ""))
            self._finish_container(custom_kinds.RESOURCE, resource)
            if resource == SERVICE_ACCOUNTS and meta(obj)["name"] == DEFAULT_ACCOUNT:
                self._keep_default_account(meta(obj)["namespace"])

    def _dependents(self, owner: Obj) -> Iterator[tuple[str, Obj]]:
        """The objects that the owner owns, each as it is when its turn comes."""
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
                    self._vanish(resource, holder)
                else:
                    self._tx.put(resource, holder)

    def _finish_container(self, resource: str, name: str) -> None:
        container = self._tx.get(resource, "", name) if name else None
        if container and self._ready(resource, container):
            self._vanish(resource, container)

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
        """Dependents that a foreground deletion of the owner waits for."""
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
