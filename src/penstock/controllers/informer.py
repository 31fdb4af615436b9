"""A copy of all objects of one kind, kept up to date by list and watch, and whoever wants to know of changes.

The differences between a new list and the copy are announced like any change. While the API cannot be read, the copy
stays as it was.

A kind that the server does not have, does not list, or does not let the control plane see, has no objects until that
changes, and objects that refer to it have the reason in their status: a reference of one user must not hold up others.
Not so a kind that routes are made of: to take it for empty would remove every
route, and with each what it has still to get. It is waited for, and what is known of it stays in force. A listener that
fails is a defect, not a matter of the API: it ends the informer.
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

Announce = Callable[[Key, Obj | None], None]
"""Told the key and the object as it now is (None: gone)."""


class Informer:
    """The objects of one kind."""

    def __init__(self, api: AsyncClient, kind: Kind) -> None:
        self.kind = kind
        self.synced = asyncio.Event()
        """Set once the kind has been listed, or is known not to be served; a kind of routes must be listed."""
        self.unserved: str | None = None
        """Why the server shows no objects of the kind: it does not have it, or forbids to list it. None: it does."""
        self.served_changed: Callable[[], None] = lambda: None
        """Called when `unserved` has changed."""
        self._api = api
        self._objects: dict[Key, Obj] = {}
        self._listeners: list[Announce] = []
        self._version: str | None = None

    def get(self, key: Key) -> Obj | None:
        """The object as last seen; not to be changed."""
        return self._objects.get(key)

    def all(self) -> Iterator[Obj]:
        """Every object as last seen."""
        return iter(list(self._objects.values()))

    def listen(self, announce: Announce) -> None:
        """Has every change announced."""
        self._listeners.append(announce)

    def resync(self) -> None:
        """Announces every object again, changed or not."""
        for key, obj in list(self._objects.items()):
            self._announce(key, obj)

    def saw(self, obj: Obj) -> None:
        """Takes in an object as the server answered it to a write, ahead of the watch."""
        key = key_of(obj)
        held = self._objects.get(key)
        if held is None:
            # One that the watch has not come to yet; else it has been there and is gone.
            news = _version(obj) > int(self._version or 0) if (self._version or "0").isdigit() else False
        else:
            news = _uid(obj) == _uid(held) and _version(obj) > _version(held)
        if news:
            self._take(key, typed(obj, self.kind))

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
                    self._note(error)

    def _replace(self, objects: list[Obj]) -> None:
        fresh = {key_of(obj): obj for obj in objects}
        for key in self._objects.keys() - fresh.keys():
            self._take(key, None)
        for key, obj in fresh.items():
            if _differs(self._objects.get(key), obj):
                self._take(key, obj)

    def _change(self, change: str, obj: Obj) -> None:
        key = key_of(obj)
        if change == "DELETED":
            self._take(key, None)
        elif _differs(self._objects.get(key), obj):
            self._take(key, obj)

    def _take(self, key: Key, obj: Obj | None) -> None:
        if obj is None:
            if self._objects.pop(key, None) is None:
                return
        else:
            self._objects[key] = obj
        self._announce(key, obj)

    def _announce(self, key: Key, obj: Obj | None) -> None:
        for announce in self._listeners:
            try:
                announce(key, obj)
            except Exception as error:  # a defect, which names its object and goes on to end the informer
                error.add_note(f"It could not take a change of {self.kind.kind} {key.namespace}/{key.name}.")
                raise

    def _note(self, error: KubeError) -> None:
        advice = next((text for kind, text in WHY_UNSEEN.items() if isinstance(error, kind)), None)
        if advice is None or self.kind in RECONCILED:
            log.warning(
                "the API cannot be read; what is known stays in force",
                kind=self.kind.kind,
                error=describe(error),
                **({} if advice is None else {"advice": advice}),
            )
            return
        self._version = None
        for key in list(self._objects):
            self._take(key, None)
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
                self.served_changed()


def _differs(held: Obj | None, obj: Obj) -> bool:
    """Whether the watch brings news; what a write of ours has already brought is none, and older states are none."""
    if held is None or _uid(held) != _uid(obj):
        return True
    return _version(obj) > _version(held) or not _version(obj)


def _uid(obj: Obj) -> str:
    return str(obj["metadata"].get("uid") or "")


def _version(obj: Obj) -> int:
    """Resource versions are opaque in principle; all servers count, and the watch corrects whatever this gets wrong."""
    text = str(obj["metadata"].get("resourceVersion") or "0")
    return int(text) if text.isdigit() else 0
