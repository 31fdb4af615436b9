"""A cache of all objects of one kind, kept up to date by list and watch, with listeners for changes.

Listeners get the differences between a new list and the cache like any other change. While the API cannot be read, the
cache stays as it is.

A kind that the server does not have, cannot list, or does not let the control plane see, counts as empty until that
changes, and objects that refer to it get the reason in their status: a reference of one user must not delay others.
Kinds that routes are made of are an exception: an empty cache would remove every route together with its undelivered
events. The informer waits until such a kind can be listed, and keeps the cached objects. A listener that raises is a
defect and ends the informer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial

import structlog

from penstock.kube.client import AsyncClient, typed
from penstock.kube.errors import Forbidden, KubeError, MethodNotAllowed, NotFound
from penstock.kube.kinds import RECONCILED, Key, Kind, Obj, key_of
from penstock.kube.list_watch import Changed, Interrupted, Listed, list_and_watch
from penstock.observability.logs import describe

log = structlog.get_logger()

WHY_UNSEEN: dict[type[KubeError], str] = {
    NotFound: "install its CustomResourceDefinition",
    Forbidden: "grant the control plane to list and watch it",
    MethodNotAllowed: "refer to a kind whose objects can be listed",
}
"""Errors that mean that the server shows no objects of a kind, and what to do about it."""

Listener = Callable[[Key, Obj | None], None]
"""Called with the key and the object as it is now (None: deleted)."""


class Informer:
    """The objects of one kind."""

    def __init__(self, api: AsyncClient, kind: Kind, served_changed: Callable[[], None] = lambda: None) -> None:
        """`served_changed` is called when `unserved` has changed."""
        self.kind = kind
        self.synced = asyncio.Event()
        """Set once the kind has been listed, or is known not to be served; a kind of routes must be listed."""
        self.unserved: str | None = None
        """Why the server shows no objects of the kind: it does not have it, or forbids to list it. None: it does."""
        self._api, self._served_changed = api, served_changed
        self._objects: dict[Key, Obj] = {}
        self._listeners: list[Listener] = []
        self._version: str | None = None

    def get(self, key: Key) -> Obj | None:
        """The object as last seen; callers must not change it."""
        return self._objects.get(key)

    def all(self) -> Iterator[Obj]:
        """Every object as last seen."""
        return iter(list(self._objects.values()))

    def listen(self, listener: Listener) -> None:
        """Calls the listener with every change."""
        self._listeners.append(listener)

    def resync(self) -> None:
        """Calls the listeners with every object, changed or not."""
        for key, obj in list(self._objects.items()):
            self._notify(key, obj)

    def saw(self, obj: Obj) -> None:
        """Caches an object that the server returned for a write, ahead of the watch."""
        key = key_of(obj)
        held = self._objects.get(key)
        if held is None:
            # New only if the watch has not reached its version yet; otherwise it was deleted since.
            is_newer = _version(obj) > int(self._version or 0) if (self._version or "0").isdigit() else False
        else:
            is_newer = _uid(obj) == _uid(held) and _version(obj) > _version(held)
        if is_newer:
            self._update(key, typed(obj, self.kind))

    async def run(self) -> None:
        """Follows the kind until cancelled."""
        get_list, open_watch = partial(self._api.list, self.kind), partial(self._api.watch, self.kind)
        async for news in list_and_watch(get_list, open_watch):
            match news:
                case Listed(objects, version):
                    self._replace(objects)
                    self._version = version
                    self._set_unserved(None)
                case Changed(change, obj):
                    self._version = obj["metadata"]["resourceVersion"]
                    self._change(change, obj)
                case Interrupted(error):
                    self._interrupted(error)

    def _replace(self, objects: list[Obj]) -> None:
        fresh = {key_of(obj): obj for obj in objects}
        for key in self._objects.keys() - fresh.keys():
            self._update(key, None)
        for key, obj in fresh.items():
            if _differs(self._objects.get(key), obj):
                self._update(key, obj)

    def _change(self, change: str, obj: Obj) -> None:
        key = key_of(obj)
        if change == "DELETED":
            self._update(key, None)
        elif _differs(self._objects.get(key), obj):
            self._update(key, obj)

    def _update(self, key: Key, obj: Obj | None) -> None:
        if obj is None:
            if self._objects.pop(key, None) is None:
                return
        else:
            self._objects[key] = obj
        self._notify(key, obj)

    def _notify(self, key: Key, obj: Obj | None) -> None:
        for listener in self._listeners:
            try:
                listener(key, obj)
            except Exception as error:  # a defect of any kind: it is raised again with the name of the object
                error.add_note(f"A listener failed on a change of {self.kind.kind} {key.namespace}/{key.name}.")
                raise

    def _interrupted(self, error: KubeError) -> None:
        advice = next((text for kind, text in WHY_UNSEEN.items() if isinstance(error, kind)), None)
        if advice is None or self.kind in RECONCILED:
            log.warning(
                "list/watch failed; keeping the cached objects",
                kind=self.kind.kind,
                error=describe(error),
                **({} if advice is None else {"advice": advice}),
            )
            return
        self._version = None
        for key in list(self._objects):
            self._update(key, None)
        unknown = isinstance(error, NotFound)
        self._set_unserved("the server could not find the requested resource" if unknown else str(error))

    def _set_unserved(self, reason: str | None) -> None:
        before, self.unserved = self.unserved, reason
        first = not self.synced.is_set()
        self.synced.set()
        if before != reason:
            if reason is not None:
                log.warning("a kind that objects refer to cannot be read", kind=self.kind.kind, reason=reason)
            if not first:
                self._served_changed()


def _differs(held: Obj | None, obj: Obj) -> bool:
    """Whether the object is newer than the cached one; `saw` may have cached a newer state than the watch delivers."""
    if held is None or _uid(held) != _uid(obj):
        return True
    return _version(obj) > _version(held) or not _version(obj)


def _uid(obj: Obj) -> str:
    return str(obj["metadata"].get("uid") or "")


def _version(obj: Obj) -> int:
    """Resource versions are opaque in principle, but all servers use increasing numbers; 0: anything else."""
    text = str(obj["metadata"].get("resourceVersion") or "0")
    return int(text) if text.isdigit() else 0
