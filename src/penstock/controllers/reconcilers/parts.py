"""The objects that an object is made of: created where they are missing, changed where they differ, deleted where they
are no longer wanted. They are owned, so that they go when it goes."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterable, Iterator
from itertools import count, takewhile
from typing import TypeVar

from penstock.controllers.reconciler import ReconcilerContext
from penstock.controllers.tracker import Observer, Place
from penstock.kube.errors import Conflict, KubeError, NotFound
from penstock.kube.kinds import Key, Kind, Obj, key_of
from penstock.resources.metadata import controller_of, covers

T = TypeVar("T")


class PartFailed(Exception):  # told in the status, and tried again when something changes
    """A part cannot be had; the text says why."""


class Parts:
    """The parts of one object, as its reconciler sees them."""

    def __init__(self, context: ReconcilerContext, me: Observer, owner: Obj) -> None:
        self._context, self._me, self._owner = context, me, owner

    async def exists(self, wanted: Obj) -> Obj:
        """The part as stored, whatever its spec by now."""
        found = self._held(place_of(wanted))
        return await self._create(wanted) if found is None else found

    async def ensure(self, wanted: Obj, *, fixed: str | None = None) -> Obj:
        """The part as stored, with the wanted spec. `fixed`: a field of the spec that never changes; a part that has
        another value there is replaced."""
        kind, key = place_of(wanted)
        found = self._held((kind, key))
        if found is None:
            return await self._create(wanted)
        spec = found.get("spec") or {}
        if fixed is not None and spec.get(fixed) != wanted["spec"].get(fixed):
            await self._delete((kind, key))
            return await answered(self._context.api.create(kind, wanted))
        if spec == wanted["spec"]:
            return found
        await answered(self._context.write_spec(kind, {**found, "spec": wanted["spec"]}))
        return self._context.tracker.informer(kind).get(key) or found

    async def own(self, wanted: Obj) -> Obj:
        """The part as stored, with all that is wanted of its spec; the server's defaults beside it stay. One of the
        same name that is somebody else's is a PartFailed."""
        kind, key = place_of(wanted)
        found = self._held((kind, key))
        if found is None:
            return await self._create(wanted)
        if _owner_uid(found) != self._owner["metadata"]["uid"]:
            raise PartFailed(f'There is an existing {kind.kind} "{key.name}" that we do not own.')
        spec = found.get("spec") or {}
        if covers(spec, wanted["spec"]):
            return found
        await answered(self._context.write_spec(kind, {**found, "spec": {**spec, **wanted["spec"]}}))
        return self._context.tracker.informer(kind).get(key) or found

    async def remove(self, places: Iterable[Place]) -> None:
        """Deletes those parts that are there and belong to the owner."""
        for place in places:
            found = self._held(place)
            if found is not None and _owner_uid(found) == self._owner["metadata"]["uid"]:
                await self._delete(place)

    def there(self, place: Place) -> bool:
        """Whether there is such an object."""
        return self._held(place) is not None

    def _held(self, place: Place) -> Obj | None:
        """The part; the owner is enqueued when it changes. What a former owner of the same name left counts not."""
        kind, key = place
        found = self._context.tracker.look(self._me, kind, key)
        return None if found is None or self._is_left_over(found) else found

    def _is_left_over(self, part: Obj) -> bool:
        owner = controller_of(part)
        former = owner is not None and owner.get("kind") == self._owner["kind"]
        return bool(part["metadata"].get("deletionTimestamp")) or (
            former and _owner_uid(part) != self._owner["metadata"]["uid"]
        )

    async def _create(self, wanted: Obj) -> Obj:
        kind, key = place_of(wanted)
        informer = self._context.tracker.informer(kind)
        if informer.unserved is not None:
            raise PartFailed(informer.unserved)
        if informer.get(key) is not None:
            # Its predecessor is on the way out, and the watch tells when it is gone.
            return wanted
        return await answered(self._context.api.create(kind, wanted))

    async def _delete(self, place: Place) -> None:
        with contextlib.suppress(NotFound):
            await self._context.api.delete(*place)


def place_of(part: Obj) -> Place:
    """Which object it is."""
    return Kind(part["apiVersion"], part["kind"]), key_of(part)


async def answered(request: Awaitable[T]) -> T:
    """The answer; a refusal for good is a PartFailed. What may go well the next time is tried again."""
    try:
        return await request
    except KubeError as error:
        if error.is_temporary or isinstance(error, Conflict):
            raise
        raise PartFailed(str(error)) from error


def _owner_uid(part: Obj) -> str | None:
    return (controller_of(part) or {}).get("uid")


# Parts of a flow that was longer before, or had Channels of another kind.


def behind_the_last(parts: Parts, kind: Kind, key: Key, name: Callable[[str, int], str], length: int) -> list[Place]:
    """Parts numbered beyond the present length, the last first: if deleting ends early, no gap hides the rest."""
    places = ((kind, Key(key.namespace, name(key.name, number))) for number in count(length))
    return list(reversed(list(takewhile(parts.there, places))))


def of_another_kind(references: Iterable[Obj], present: Kind) -> Iterator[Place]:
    """Channels that the last status named and that are not of the present kind."""
    for reference in references:
        kind = Kind(reference.get("apiVersion", ""), reference.get("kind", ""))
        if kind != present:
            yield kind, Key(reference.get("namespace", ""), reference.get("name", ""))
