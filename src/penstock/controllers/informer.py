"""A copy of all objects of one kind, kept up to date by list and watch, and whoever wants to know of changes.

A watch that breaks is taken up where it ended; one that is too old (410) is replaced by a new list, whose differences
to the copy are announced like any change. An API server that is away is waited for with growing pauses; the copy
stays as it was.

A kind that the server does not have, or does not let the control plane see, has no objects until that changes, and
those that refer to it are told why. Not so a kind that routes are made of: to take it for empty would remove every
route, and with each what it has still to get. It is waited for, and what is known of it stays in force. A listener that
fails is a defect, not a matter of the API, and ends the informer.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator

import structlog

from penstock.controllers.api import (
    FORBIDDEN,
    GONE,
    NOT_FOUND,
    RECONCILED,
    Api,
    Key,
    Kind,
    Obj,
    code_of,
    key_of,
    named,
)
from penstock.observability.logs import describe
from penstock.retry import pause_after

log = structlog.get_logger()

FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 5.0

WHY_UNSEEN = {
    NOT_FOUND: "install its CustomResourceDefinition",
    FORBIDDEN: "grant the control plane to list and watch it",
}
"""Answers that mean that the server shows no objects of a kind, and what to do about it."""

Announce = Callable[[Key, Obj | None], None]
"""Told the key and the object as it now is (None: gone)."""


class ListenerFailed(Exception):
    """A listener could not take a change; the cause is the defect."""


class Informer:
    """The objects of one kind."""

    def __init__(self, api: Api, kind: Kind) -> None:
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
            self._take(key, named(obj, self.kind))

    async def run(self) -> None:
        """Follows the kind until cancelled."""
        failures = 0
        while True:
            try:
                if self._version is None:
                    await self._list()
                failures = 0
                await self._watch()
            except ListenerFailed:
                raise
            except Exception as error:
                # Whatever broke (connection, server, an answer cut short), the cure is the same: go on later.
                if code_of(error) == GONE:
                    self._version = None
                    continue
                failures += 1
                self._note(error)
                pause = pause_after(failures, FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311  # spreads reconnects, no secret

    async def _list(self) -> None:
        objects, version = await self._api.list(self.kind)
        fresh = {key_of(obj): obj for obj in objects}
        for key in self._objects.keys() - fresh.keys():
            self._take(key, None)
        for key, obj in fresh.items():
            if _differs(self._objects.get(key), obj):
                self._take(key, obj)
        self._version = version
        self._set_unserved(None)

    async def _watch(self) -> None:
        async for change, obj in self._api.watch(self.kind, self._version or ""):
            self._version = obj["metadata"]["resourceVersion"]
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
            except Exception as error:
                raise ListenerFailed(f"{self.kind.kind} {key.namespace}/{key.name}: {error!r}") from error

    def _note(self, error: Exception) -> None:
        code = code_of(error)
        if code == NOT_FOUND:
            self._version = None  # a kind that comes back is another one, and is listed anew
        if code not in WHY_UNSEEN or self.kind in RECONCILED:
            log.warning(
                "the API cannot be read; what is known stays in force",
                kind=self.kind.kind,
                error=describe(error),
                **({"advice": WHY_UNSEEN[code]} if code in WHY_UNSEEN else {}),
            )
            return
        self._version = None
        for key in list(self._objects):
            self._take(key, None)
        unknown = code == NOT_FOUND
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
