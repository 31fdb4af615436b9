"""The API as ServiceAccounts see it: a connection for each, on which the server decides what it may watch."""

from __future__ import annotations

from collections.abc import AsyncIterator

from penstock.controllers.api import EVERYWHERE, FORBIDDEN, GONE, NOT_FOUND, Api, Kind, Obj, code_of
from penstock.sources.watches.runner import Forbidden, NotServed, WatchExpired
from penstock.sources.watches.watch_plan import WatchedObjects


class AccountApis:
    """Connections by user; see `ObjectApi`."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._apis: dict[str, Api] = {}
        self._cluster_wide: set[Kind] = set()
        """Kinds whose objects are in no namespace."""

    async def close(self) -> None:
        """Ends every connection."""
        for api in self._apis.values():
            await api.close()
        self._apis.clear()

    async def listing(self, user: str, watched: WatchedObjects) -> tuple[list[Obj], str]:
        """The objects, and the version to watch from."""
        api, kind = self._of(user), _kind(watched)
        try:
            return await api.list(kind, self._place(watched))
        except Exception as error:
            if code_of(error) == NOT_FOUND and self._place(watched) != EVERYWHERE:
                # A kind without namespaces is found only beyond them.
                return await self._listing_everywhere(api, kind)
            raise _told(error) from error

    async def _listing_everywhere(self, api: Api, kind: Kind) -> tuple[list[Obj], str]:
        try:
            found = await api.list(kind)
        except Exception as error:
            raise _told(error) from error
        self._cluster_wide.add(kind)
        return found

    async def changes(self, user: str, watched: WatchedObjects, version: str) -> AsyncIterator[tuple[str, Obj]]:
        """Changes after `version`."""
        try:
            async for change in self._of(user).watch(_kind(watched), version, self._place(watched)):
                yield change
        except Exception as error:
            raise _told(error) from error

    def plural(self, watched: WatchedObjects) -> str:
        """The name of the collection."""
        return _kind(watched).plural

    def _of(self, user: str) -> Api:
        if user not in self._apis:
            self._apis[user] = self._api.acting_as(user)
        return self._apis[user]

    def _place(self, watched: WatchedObjects) -> str:
        if watched.namespace is None or _kind(watched) in self._cluster_wide:
            return EVERYWHERE
        return watched.namespace


def _kind(watched: WatchedObjects) -> Kind:
    return Kind(watched.kind.api_version, watched.kind.kind)


def _told(error: Exception) -> Exception:
    """What the runner makes of the answer; anything else is as it was."""
    kinds: dict[int | None, type[Exception]] = {GONE: WatchExpired, NOT_FOUND: NotServed, FORBIDDEN: Forbidden}
    kind = kinds.get(code_of(error))
    return error if kind is None else kind(str(error))
