"""Who looks at which object, so that a target that appears or changes is noticed.

A reconciler looks objects up through the tracker and is enqueued again when one of them changes. A kind nobody has
looked at before gets an informer of its own the moment somebody does.
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
"""The kind of the object that looks, and which."""
Place = tuple[Kind, Key]


class NotYetKnown(Exception):  # no error: the observer is enqueued when the answer is known
    """The kind of the object is being listed."""


class Tracker:
    """All informers of the process, and who looks at what."""

    def __init__(self, api: AsyncClient, enqueue: Callable[[Observer], None]) -> None:
        self._api, self._enqueue = api, enqueue
        self._informers: dict[Kind, Informer] = {}
        self._owner = TaskScope()
        self._observers: dict[Place, set[Observer]] = defaultdict(set)
        self._places: dict[Observer, set[Place]] = defaultdict(set)
        self._waiting: dict[Kind, set[Observer]] = defaultdict(set)

    def informer(self, kind: Kind) -> Informer:
        """The informer of the kind, started if there was none."""
        if kind not in self._informers:
            informer = Informer(self._api, kind)
            informer.listen(lambda key, _: self._changed((kind, key)))
            informer.served_changed = lambda: self._served_changed(kind)
            self._informers[kind] = informer
            self._owner.start(informer.run(), f"informer of {kind.kind}")
            self._owner.start(self._announce_sync(informer), f"first list of {kind.kind}")
        return self._informers[kind]

    def resync(self) -> None:
        """Announces every object of every kind again."""
        for informer in self._informers.values():
            informer.resync()

    def look(self, observer: Observer, kind: Kind, key: Key) -> Obj | None:
        """The object; the observer is enqueued when it changes. Raises NotYetKnown."""
        self._observers[kind, key].add(observer)
        self._places[observer].add((kind, key))
        informer = self.informer(kind)
        if not informer.synced.is_set():
            self._waiting[kind].add(observer)
            raise NotYetKnown(kind.kind)
        return informer.get(key)

    def lookup(self, observer: Observer) -> Callable[[KReference], Mapping[str, Any] | Unresolved]:
        """`look` in the shape that the resolver asks for."""

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
        """The observer looks at nothing any more."""
        for place in self._places.pop(observer, ()):
            self._observers[place].discard(observer)
            if not self._observers[place]:
                del self._observers[place]

    @property
    def anyone_waits(self) -> bool:
        """Whether somebody was told NotYetKnown and not enqueued since."""
        return bool(self._waiting)

    async def all_known(self) -> None:
        """Returns when everybody who was told NotYetKnown has been enqueued."""
        for kind in tuple(self._waiting):
            await self.informer(kind).synced.wait()
            self._release(kind)

    async def failed(self) -> NoReturn:
        """Waits for an informer to fail, and raises why."""
        await self._owner.failed()

    async def close(self) -> None:
        """Ends every informer."""
        await self._owner.close()

    async def _announce_sync(self, informer: Informer) -> None:
        await informer.synced.wait()
        self._release(informer.kind)

    def _release(self, kind: Kind) -> None:
        for observer in self._waiting.pop(kind, ()):
            self._enqueue(observer)

    def _served_changed(self, kind: Kind) -> None:
        for place in [place for place in self._observers if place[0] == kind]:
            self._changed(place)

    def _changed(self, place: Place) -> None:
        for observer in tuple(self._observers.get(place, ())):
            self._enqueue(observer)
