"""The objects that a reconciler creates for its object: created where missing, changed where they differ, deleted where
no longer wanted. They have an owner reference, so that they are deleted with their owner."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterable, Iterator
from itertools import count, takewhile
from typing import TypeVar

from penstock.controllers.reconciler import ReconcilerContext
from penstock.controllers.tracker import ObjectRef, Observer
from penstock.kube.errors import Conflict, KubeError, NotFound
from penstock.kube.kinds import Key, Kind, Obj, key_of
from penstock.resources.metadata import controller_of, is_subset

T = TypeVar("T")


class PartFailed(Exception):  # the status says so; retried when something changes
    """A part cannot be created or changed; the message says why."""


class Parts:
    """The parts of one object."""

    def __init__(self, context: ReconcilerContext, me: Observer, owner: Obj) -> None:
        self._context, self._me, self._owner = context, me, owner

    async def exists(self, wanted: Obj) -> Obj:
        """The part as stored, created if missing; its spec may have changed since."""
        found = self._held(ref_to(wanted))
        return await self._create(wanted) if found is None else found

    async def ensure(self, wanted: Obj, *, fixed: str | None = None) -> Obj:
        """The part as stored, with exactly the wanted spec. `fixed`: an immutable field of the spec; a part with
        another value there is replaced."""
        kind, key = ref_to(wanted)
        found = self._held((kind, key))
        if found is None:
            return await self._create(wanted)
        spec = found.get("spec") or {}
        if fixed is not None and spec.get(fixed) != wanted["spec"].get(fixed):
            await self._delete((kind, key))
            return await part_request(self._context.api.create(kind, wanted))
        if spec == wanted["spec"]:
            return found
        await part_request(self._context.write_spec(kind, {**found, "spec": wanted["spec"]}))
        return self._context.tracker.informer(kind).get(key) or found

    async def own(self, wanted: Obj) -> Obj:
        """The part as stored, with the wanted fields in its spec; others, such as defaults of the server, stay. Raises
        PartFailed if an object of this name has another owner."""
        kind, key = ref_to(wanted)
        found = self._held((kind, key))
        if found is None:
            return await self._create(wanted)
        if _owner_uid(found) != self._owner["metadata"]["uid"]:
            raise PartFailed(f'There is an existing {kind.kind} "{key.name}" that we do not own.')
        spec = found.get("spec") or {}
        if is_subset(wanted["spec"], spec):
            return found
        await part_request(self._context.write_spec(kind, {**found, "spec": {**spec, **wanted["spec"]}}))
        return self._context.tracker.informer(kind).get(key) or found

    async def remove(self, refs: Iterable[ObjectRef]) -> None:
        """Deletes those parts that exist and belong to the owner."""
        for ref in refs:
            found = self._held(ref)
            if found is not None and _owner_uid(found) == self._owner["metadata"]["uid"]:
                await self._delete(ref)

    def has(self, ref: ObjectRef) -> bool:
        """Whether there is such an object."""
        return self._held(ref) is not None

    def _held(self, ref: ObjectRef) -> Obj | None:
        """The part; the owner is enqueued when it changes. Parts of a former owner of the same name do not count."""
        kind, key = ref
        found = self._context.tracker.look(self._me, kind, key)
        return None if found is None or self._is_left_over(found) else found

    def _is_left_over(self, part: Obj) -> bool:
        owner = controller_of(part)
        former = owner is not None and owner.get("kind") == self._owner["kind"]
        return bool(part["metadata"].get("deletionTimestamp")) or (
            former and _owner_uid(part) != self._owner["metadata"]["uid"]
        )

    async def _create(self, wanted: Obj) -> Obj:
        kind, key = ref_to(wanted)
        informer = self._context.tracker.informer(kind)
        if informer.unserved is not None:
            raise PartFailed(informer.unserved)
        if informer.get(key) is not None:
            # Its predecessor is being deleted; the watch enqueues the owner once it is gone.
            return wanted
        return await part_request(self._context.api.create(kind, wanted))

    async def _delete(self, ref: ObjectRef) -> None:
        with contextlib.suppress(NotFound):
            await self._context.api.delete(*ref)


def ref_to(part: Obj) -> ObjectRef:
    """Which object it is."""
    return Kind(part["apiVersion"], part["kind"]), key_of(part)


async def part_request(request: Awaitable[T]) -> T:
    """The result of the request. Raises PartFailed if retrying does not help, and otherwise the KubeError."""
    try:
        return await request
    except KubeError as error:
        if error.is_temporary or isinstance(error, Conflict):
            raise
        raise PartFailed(str(error)) from error


def _owner_uid(part: Obj) -> str | None:
    return (controller_of(part) or {}).get("uid")


def surplus_parts(parts: Parts, kind: Kind, key: Key, name: Callable[[str, int], str], length: int) -> list[ObjectRef]:
    """Parts of a flow that was longer before. The last is first: if deleting is interrupted, no gap hides the rest."""
    refs = ((kind, Key(key.namespace, name(key.name, number))) for number in count(length))
    return list(reversed(list(takewhile(parts.has, refs))))


def of_another_kind(references: Iterable[Obj], present: Kind) -> Iterator[ObjectRef]:
    """Channels in the last status of a flow that are not of the present kind."""
    for reference in references:
        kind = Kind(reference.get("apiVersion", ""), reference.get("kind", ""))
        if kind != present:
            yield kind, Key(reference.get("namespace", ""), reference.get("name", ""))
