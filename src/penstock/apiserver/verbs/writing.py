"""The verbs that change objects, each one function of a transaction.

Create, update and patch all end in `_store`: unknown fields, defaults, admission, the schema, metadata, ownership,
generation, and no write at all if nothing changed.
"""

from __future__ import annotations

import copy
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from penstock.apiserver import errors
from penstock.apiserver.documents import meta
from penstock.apiserver.kinds import core_rules, metadata
from penstock.apiserver.kinds.registry import Registry, ServedKind
from penstock.apiserver.kinds.schema import walker_of
from penstock.apiserver.store.storage import Transaction
from penstock.apiserver.verbs import apply
from penstock.apiserver.verbs.admission import AdmissionPlugin, AdmissionRequest, Denied
from penstock.apiserver.verbs.apply import Manager
from penstock.apiserver.verbs.deletion import DeleteOptions, Deletion
from penstock.kube.kinds import Obj
from penstock.runtime.times import rfc3339

PROTECTED_NAMESPACES = ("default", "kube-system", "knative-eventing")
_SERVER_SET = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")


@dataclass(frozen=True)
class WriteTarget:
    """The object of a write, and who writes it how."""

    kind: ServedKind
    namespace: str
    name: str
    user: str
    manager: str
    subresource: str = ""
    field_validation: str = "Warn"
    groups: tuple[str, ...] = ()
    """Those of the user."""
    warnings: list[str] = field(default_factory=list)
    """Warnings for the client; the write appends to it."""

    def missing(self) -> errors.ApiError:
        """The error that the object does not exist."""
        return errors.not_found(self.kind.group, self.kind.plural, self.name)


class Verbs:
    """The changing verbs over all kinds."""

    def __init__(
        self, registry: Registry, admission: AdmissionPlugin, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._registry, self._admission, self._clock = registry, admission, clock

    def create(self, tx: Transaction, target: WriteTarget, given: Obj, *, operation: str = "Update") -> Obj:
        """Stores a new object."""
        kind, obj = target.kind, copy.deepcopy(given)
        self.check_identity(target, obj)
        details = meta(obj)
        if not details.get("name") and details.get("generateName"):
            details["name"] = _free_name(tx, kind, target.namespace, str(details["generateName"]))
        name = details.get("name")
        if not name:
            complaint = ("metadata.name", "FieldValueRequired", "Required value: name or generateName is required")
            raise errors.invalid(kind.group, kind.kind, "", [complaint])
        if details.get("resourceVersion") and operation == "Update":
            raise errors.bad_request("resourceVersion should not be set on objects to be created")
        if kind.namespaced:
            self._check_namespace(tx, target, str(name))
            details["namespace"] = target.namespace
        for key in (*_SERVER_SET, "resourceVersion", "selfLink"):
            details.pop(key, None)
        details["uid"] = str(uuid.uuid4())
        details["creationTimestamp"] = rfc3339(self._clock())
        if kind.counts_generations:
            details["generation"] = 1
        if kind.has_status and operation == "Update":
            obj.pop("status", None)
        stored = self._store(tx, target, obj, None, operation=operation)
        if kind.resource == "namespaces":
            self.restore_default_account(tx, str(name))
        self._deletion(tx).collect(kind.resource, copy.deepcopy(stored))
        return stored

    def update(self, tx: Transaction, target: WriteTarget, change: Callable[[Obj], Obj]) -> Obj:
        """Stores what `change` makes of the current object; it may raise to refuse."""
        old = self.current(tx, target)
        new = change(copy.deepcopy(old))
        if not isinstance(new, dict) or not isinstance(new.get("metadata", {}), dict):
            raise errors.bad_request("the result is not an object with metadata")
        self.check_identity(target, new)
        return self._replace(tx, target, new, old)

    def apply(self, tx: Transaction, target: WriteTarget, wanted: Obj, *, force: bool) -> tuple[Obj, bool]:
        """Server-side apply: creates or merges; the object, and whether it was created."""
        kind, walker = target.kind, walker_of(target.kind)
        wanted = copy.deepcopy(wanted)
        details = meta(wanted)
        if details.get("managedFields"):
            raise errors.bad_request("metadata.managedFields must be nil")
        details.setdefault("name", target.name)
        self.check_identity(target, wanted)
        complaints = [] if details["name"] == target.name else [("metadata.name", "FieldValueInvalid", "differs")]
        complaints += metadata.check(details, kind)
        if complaints:
            raise errors.invalid(kind.group, kind.kind, target.name, complaints)
        self._report_unknown(target, walker.prune(wanted))
        _drop_nulls_of(kind, wanted)
        old = tx.get(kind.resource, target.namespace, target.name)
        if old is None and target.subresource:
            raise target.missing()
        if kind.namespaced:
            details["namespace"] = target.namespace
        if kind.has_status and target.subresource != "status":
            wanted.pop("status", None)
        version = details.pop("resourceVersion", None)
        if version and old and version != meta(old)["resourceVersion"]:
            raise errors.conflict(kind.group, kind.plural, target.name, errors.STALE)
        manager = Manager(target.manager, "Apply", kind.api_version, target.subresource)
        now = rfc3339(self._clock())
        if old is None:
            fresh = apply.apply(None, wanted, manager, walker, now, force=force)
            return self.create(tx, target, fresh, operation="Apply"), True
        old = kind.served(old)
        result = apply.apply(old, wanted, manager, walker, now, force=force)
        return self._replace(tx, target, result, old, operation="Apply"), False

    def delete(self, tx: Transaction, target: WriteTarget, options: DeleteOptions) -> tuple[Obj, bool]:
        """Deletes; the object, and whether it has been removed."""
        kind = target.kind
        obj = self.current(tx, target)
        details = meta(obj)
        for wanted, actual in ((options.uid, details["uid"]), (options.version, details["resourceVersion"])):
            if wanted is not None and wanted != actual:
                why = f"Precondition failed: in precondition: {wanted}, in object meta: {actual}"
                raise errors.conflict(kind.group, kind.plural, target.name, why)
        if kind.resource == "namespaces" and target.name in PROTECTED_NAMESPACES:
            raise errors.forbidden("", "namespaces", target.name, "this namespace may not be deleted")
        left = self._deletion(tx).delete(kind.resource, copy.deepcopy(kind.stored(obj)), options)
        return (obj, True) if left is None or meta(left)["uid"] != details["uid"] else (kind.served(left), False)

    def empty(self, tx: Transaction, namespace: str, after: tuple[str, str], limit: int) -> tuple[str, str] | None:
        """Deletes the next objects of a terminating namespace; see `Deletion.empty`."""
        return self._deletion(tx).empty(namespace, after, limit)

    def current(self, tx: Transaction, target: WriteTarget) -> Obj:
        """The object as it is; raises 404."""
        obj = tx.get(target.kind.resource, target.namespace, target.name)
        if obj is None:
            raise target.missing()
        return target.kind.served(obj)

    def restore_default_account(self, tx: Transaction, namespace: str) -> None:
        """Creates the ServiceAccount `default` if it is missing: the one of Pods that name no other."""
        if tx.get("serviceaccounts", namespace, "default") is None:
            details = {
                "name": "default",
                "namespace": namespace,
                "uid": str(uuid.uuid4()),
                "creationTimestamp": rfc3339(self._clock()),
            }
            tx.put("serviceaccounts", {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": details})

    def _deletion(self, tx: Transaction) -> Deletion:
        return Deletion(tx, self._clock(), self.restore_default_account)

    def _replace(self, tx: Transaction, target: WriteTarget, new: Obj, old: Obj, *, operation: str = "Update") -> Obj:
        kind, details, before = target.kind, meta(new), meta(old)
        if details.get("uid") not in (None, "", before["uid"]):
            why = f"Precondition failed: UID in precondition: {details['uid']}, UID in object meta: {before['uid']}"
            raise errors.conflict(kind.group, kind.plural, target.name, why)
        if details.get("resourceVersion") not in (None, "", before["resourceVersion"]):
            raise errors.conflict(kind.group, kind.plural, target.name, errors.STALE)
        if target.subresource == "status":
            new = {
                **old,
                "status": new.get("status"),
                "metadata": {**before, "managedFields": details.get("managedFields")},
            }
            if new["status"] is None:
                del new["status"]
            if new["metadata"]["managedFields"] is None:
                del new["metadata"]["managedFields"]
        elif kind.has_status:
            new = {key: value for key, value in new.items() if key != "status"}
            if "status" in old:
                new["status"] = old["status"]
        details = meta(new)
        for key in (*_SERVER_SET, "resourceVersion", "name", "namespace"):
            details.pop(key, None)
            if key in before:
                details[key] = before[key]
        added = set(details.get("finalizers") or ()) - set(before.get("finalizers") or ())
        if before.get("deletionTimestamp") and added:
            sentence = f"Forbidden: no new finalizers can be added if the object is being deleted: {sorted(added)}"
            complaint = ("metadata.finalizers", "FieldValueForbidden", sentence)
            raise errors.invalid(kind.group, kind.kind, target.name, [complaint])
        return self._store(tx, target, new, old, operation=operation)

    def _store(self, tx: Transaction, target: WriteTarget, obj: Obj, old: Obj | None, *, operation: str) -> Obj:
        kind, walker, now = target.kind, walker_of(target.kind), rfc3339(self._clock())
        obj["apiVersion"], obj["kind"] = kind.api_version, kind.kind
        _drop_nulls(meta(obj))
        complaints = metadata.check(meta(obj), kind)
        if complaints:
            raise errors.invalid(kind.group, kind.kind, str(meta(obj).get("name", "")), complaints)
        self._report_unknown(target, walker.prune(obj))
        _drop_nulls_of(kind, obj)
        walker.fill(obj)
        done = "UPDATE" if old else "CREATE"
        request = AdmissionRequest(kind, target.namespace, target.user, done, target.groups, target.warnings)
        admitted, given = target.subresource in ("", "scale"), obj
        if admitted:
            obj = self._admission.default(given, old, request)
        complaints = walker.check(obj)
        if complaints:
            raise errors.invalid(kind.group, kind.kind, meta(obj)["name"], complaints)
        if admitted:
            core_rules.complete(kind, obj, old, number=tx.version, now=now)
            try:
                self._admission.validate(obj, old, request)
            except Denied as denied:
                raise errors.bad_request(str(denied)) from None
        if operation == "Update":
            manager = Manager(target.manager, "Update", kind.api_version, target.subresource)
            # As in Kubernetes, a manager does not own fields that were defaulted, so that others may apply them.
            apply.after_update(old, given, manager, walker, now)
            if obj is not given:
                meta(obj)["managedFields"] = meta(given).get("managedFields")
                _drop_nulls(meta(obj))
        if old is not None:
            return self._settle(tx, target, obj, old)
        # Checked last, as in Kubernetes: an invalid object is reported as invalid even if its name exists.
        if tx.get(kind.resource, target.namespace, meta(obj)["name"]) is not None:
            raise errors.already_exists(kind.group, kind.plural, meta(obj)["name"])
        return kind.served(tx.put(kind.resource, kind.stored(obj)))

    def _settle(self, tx: Transaction, target: WriteTarget, obj: Obj, old: Obj) -> Obj:
        kind = target.kind
        if kind.counts_generations and _desired(obj) != _desired(old):
            meta(obj)["generation"] = meta(old).get("generation", 0) + 1
        if _content(obj) == _content(old):
            return old
        stored = kind.stored(obj)
        if meta(old).get("deletionTimestamp") and self._deletion(tx).release(kind.resource, copy.deepcopy(stored)):
            return obj
        return kind.served(tx.put(kind.resource, stored))

    def check_identity(self, target: WriteTarget, obj: Obj) -> None:
        """Raises if kind, namespace or name of the object are not those of the path."""
        kind, details = target.kind, obj.get("metadata") or {}
        if not isinstance(details, dict):
            raise errors.bad_request("metadata is not an object")
        obj["metadata"] = details
        given = (obj.get("apiVersion", kind.api_version), obj.get("kind", kind.kind))
        if given != (kind.api_version, kind.kind):
            raise errors.bad_request(
                f"the object provided is a {given[1]} in {given[0]}, but the path is that of "
                f"{kind.kind} in {kind.api_version}"
            )
        if kind.namespaced and details.get("namespace") not in (None, "", target.namespace):
            raise errors.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        if target.name and details.get("name") not in (None, "", target.name):
            raise errors.bad_request(
                f"the name of the object ({details['name']}) does not match the name on the URL ({target.name})"
            )

    def _check_namespace(self, tx: Transaction, target: WriteTarget, name: str) -> None:
        holder = tx.get("namespaces", "", target.namespace)
        if holder is None:
            raise errors.not_found("", "namespaces", target.namespace)
        if meta(holder).get("deletionTimestamp"):
            raise errors.terminating(target.kind.group, target.kind.plural, name, target.namespace)

    def _report_unknown(self, target: WriteTarget, dropped: list[str]) -> None:
        if not dropped or target.field_validation == "Ignore":
            return
        unknown = [f'unknown field "{path}"' for path in sorted(dropped)[: errors.MAX_COMPLAINTS]]
        if target.field_validation == "Strict":
            kind, version = target.kind.kind, target.kind.version
            why = f"strict decoding error: {', '.join(unknown)}"
            raise errors.bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {why}')
        target.warnings.extend(unknown)


def _free_name(tx: Transaction, kind: ServedKind, namespace: str, prefix: str) -> str:
    for _ in range(8):
        name = metadata.generate_name(prefix)
        if tx.get(kind.resource, namespace, name) is None:
            return name
    raise errors.already_exists(kind.group, kind.plural, prefix)


def _desired(obj: Obj) -> dict[str, Any]:
    return {key: value for key, value in obj.items() if key not in ("metadata", "status", "apiVersion", "kind")}


def _content(obj: Obj) -> Obj:
    """The object without fields that differ although nothing changed: version and times of managed fields."""
    details = dict(meta(obj))
    details.pop("resourceVersion", None)
    details["managedFields"] = [
        {key: value for key, value in entry.items() if key != "time"} for entry in details.get("managedFields") or ()
    ]
    return {**obj, "metadata": details, "apiVersion": ""}


def _drop_nulls_of(kind: ServedKind, obj: Obj) -> None:
    """Null means absent: everywhere in core kinds, and in custom ones where their schema does not allow it."""
    walker = walker_of(kind)
    if kind.custom:
        walker.drop_nulls(obj)
    else:
        _drop_nulls(obj)
        walker.fill_null_items(obj)


def _drop_nulls(value: Any) -> None:
    if isinstance(value, dict):
        for key in [key for key, item in value.items() if item is None]:
            del value[key]
        for item in value.values():
            _drop_nulls(item)
    elif isinstance(value, list):
        for item in value:
            _drop_nulls(item)
