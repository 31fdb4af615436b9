"""The API as ServiceAccounts see it: a connection for each, on which the server decides what it may watch."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

from penstock.kube.client import AsyncClient, Change, Listing
from penstock.kube.errors import NotFound
from penstock.kube.kinds import Kind
from penstock.sources.watches.watch_plan import WatchedObjects


class AccountApis:
    """Connections by user; see `ObjectApi`."""

    def __init__(self, api: AsyncClient) -> None:
        self._api = api
        self._apis: dict[str, AsyncClient] = {}
        self._cluster_wide: set[Kind] = set()
        """Kinds whose objects are in no namespace."""

    async def close(self) -> None:
        """Ends every connection."""
        for api in self._apis.values():
            await api.close()
        self._apis.clear()

    async def listing(self, user: str, watched: WatchedObjects) -> Listing:
        """The objects, and the version to watch from."""
        api, kind, namespace = self._of(user), _kind(watched), self._namespace(watched)
        try:
            return await api.list(kind, namespace)
        except NotFound:
            if namespace is None:
                raise
        # A kind without namespaces is found only beyond them.
        found = await api.list(kind)
        self._cluster_wide.add(kind)
        return found

    def changes(
        self, user: str, watched: WatchedObjects, version: str
    ) -> AbstractAsyncContextManager[AsyncIterator[Change]]:
        """Changes after `version`."""
        return self._of(user).watch(_kind(watched), version, self._namespace(watched))

    def plural(self, watched: WatchedObjects) -> str:
        """The name of the collection."""
        return _kind(watched).plural

    def _of(self, user: str) -> AsyncClient:
        if user not in self._apis:
            self._apis[user] = self._api.acting_as(user)
        return self._apis[user]

    def _namespace(self, watched: WatchedObjects) -> str | None:
        return None if _kind(watched) in self._cluster_wide else watched.namespace


def _kind(watched: WatchedObjects) -> Kind:
    return Kind(watched.kind.api_version, watched.kind.kind)
