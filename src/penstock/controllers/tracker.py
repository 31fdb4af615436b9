"""Tracks which objects depend on which others, so that an object is reconciled again when a dependency changes.

Reconcilers look objects up through the tracker. The informer of a kind starts at its first lookup.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from penstock.controllers.informer import Informer
from penstock.kube.client import AsyncClient
from penstock.kube.kinds import Key, Kind, Obj
from penstock.resources.destinations import KReference, Unresolved
from penstock.runtime.tasks import TaskScope

Observer = tuple[str, Key]
"""The queue (`Kind.queue`) and the key of the object that depends on others."""
ObjectRef = tuple[Kind, Key]
"""Which object."""


class NotYetKnown(Exception):  # not an error: the observer is enqueued once the kind has been listed
    """The kind of the object has not been listed yet."""


class Tracker:
    """All informers of the process, and which observers depend on which objects."""

    def __init__(self, api: AsyncClient, enqueue: Callable[[Observer], None]) -> None:
        self._api, self._enqueue = api, enqueue
        self._informers: dict[Kind, Informer] = {}
        self._owner = TaskScope()
        self._observers: dict[ObjectRef, set[Observer]] = defaultdict(set)
        self._observed: dict[Observer, set[ObjectRef]] = defaultdict(set)
        self._waiting: dict[Kind, set[Observer]] = defaultdict(set)

    def informer(self, kind: Kind) -> Informer:
        """The informer of the kind; it is started if there is none yet."""
        if kind not in self._informers:
            informer = Informer(self._api, kind, lambda: self._served_changed(kind))
            informer.listen(lambda key, _: self._changed((kind, key)))
            self._informers[kind] = informer
            self._owner.start(informer.run(), f"informer of {kind.kind}")
            self._owner.start(self._release_when_synced(informer), f"first list of {kind.kind}")
        return self._informers[kind]

    def resync(self) -> None:
        """Calls all listeners with every object of every kind."""
        for informer in self._informers.values():
            informer.resync()

    def look(self, observer: Observer, kind: Kind, key: Key) -> Obj | None:
        """The object; the observer is enqueued when it changes. Raises NotYetKnown."""
        self._observers[kind, key].add(observer)
        self._observed[observer].add((kind, key))
        informer = self.informer(kind)
        if not informer.synced.is_set():
            self._waiting[kind].add(observer)
            raise NotYetKnown(kind.kind)
        return informer.get(key)

    def lookup(self, observer: Observer) -> Callable[[KReference], Mapping[str, Any] | Unresolved]:
        """`look` as the function that the resolver of destinations needs."""

        def find(reference: KReference) -> Mapping[str, Any] | Unresolved:
            kind = Kind(reference.api_version, reference.kind)
            found = self.look(observer, kind, Key(reference.namespace, reference.name))
            if found is not None:
                return found
            return Unresolved(self.why_missing(kind, reference.name))

        return find

    def why_missing(self, kind: Kind, name: str) -> str:
        """Why `look` found no object of this name."""
        return self.informer(kind).unserved or f'{kind.qualified_plural} "{name}" not found'

    def forget(self, observer: Observer) -> None:
        """The observer depends on nothing any more."""
        for ref in self._observed.pop(observer, ()):
            self._observers[ref].discard(observer)
            if not self._observers[ref]:
                del self._observers[ref]

    @property
    def has_waiting(self) -> bool:
        """Whether an observer got NotYetKnown and has not been enqueued since."""
        return bool(self._waiting)

    async def all_known(self) -> None:
        """Returns when every observer that got NotYetKnown has been enqueued."""
        for kind in tuple(self._waiting):
            await self.informer(kind).synced.wait()
            self._release(kind)

    async def failed(self) -> NoReturn:
        """Waits until an informer fails, and raises its error."""
        await self._owner.failed()

    async def close(self) -> None:
        """Ends every informer."""
        await self._owner.close()

    async def _release_when_synced(self, informer: Informer) -> None:
        await informer.synced.wait()
        self._release(informer.kind)

    def _release(self, kind: Kind) -> None:
        for observer in self._waiting.pop(kind, ()):
            self._enqueue(observer)

    def _served_changed(self, kind: Kind) -> None:
        for ref in [ref for ref in self._observers if ref[0] == kind]:
            self._changed(ref)

    def _changed(self, ref: ObjectRef) -> None:
        for observer in tuple(self._observers.get(ref, ())):
            self._enqueue(observer)
