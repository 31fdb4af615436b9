"""Removes the objects of namespaces that are being deleted: in the background and in parts, as on a cluster.

That a namespace is terminating is stored with it, so a restart resumes what a crash interrupted.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterable
from functools import partial

import structlog

from penstock.apiserver.documents import decode, meta
from penstock.apiserver.errors import ApiError
from penstock.apiserver.store.storage import Change, Store
from penstock.apiserver.verbs.deletion import NAMESPACES
from penstock.apiserver.verbs.writing import Verbs
from penstock.observability.logs import describe

log = structlog.get_logger(__name__)

PAUSE_SECONDS = 2.0
OBJECTS_PER_WRITE = 500


class NamespaceCleaner:
    """Deletes the contents of terminating namespaces; created and used on one event loop."""

    def __init__(self, verbs: Verbs, pause_seconds: float = PAUSE_SECONDS) -> None:
        self._verbs, self._pause = verbs, pause_seconds
        # With the time at which each is due. The pause is the same for all, so the first one in is the first one due.
        self._queue: asyncio.Queue[tuple[float, str]] = asyncio.Queue()

    def follow(self, changes: Iterable[Change]) -> None:
        """Queues namespaces that have been deleted."""
        for change in changes:
            if change.resource == NAMESPACES and change.type != "DELETED" and is_terminating(change.body):
                self._enqueue(change.name)

    async def run(self, store: Store) -> None:
        """Empties namespaces, those of earlier runs first, until cancelled."""
        for body in (await store.page(NAMESPACES, "", keep=is_terminating)).bodies:
            self._enqueue(meta(decode(body))["name"])
        while True:
            due, namespace = await self._queue.get()
            await asyncio.sleep(due - asyncio.get_running_loop().time())
            try:
                await self._empty(store, namespace)
            except (ApiError, sqlite3.Error) as error:
                # A full disk, for example; the rest is retried.
                log.warning("a namespace could not be emptied", namespace=namespace, error=describe(error))
                self._enqueue(namespace)

    async def _empty(self, store: Store, namespace: str) -> None:
        after: tuple[str, str] | None = ("", "")
        while after is not None:
            work = partial(self._verbs.empty, namespace=namespace, after=after, limit=OBJECTS_PER_WRITE)
            after = await store.write(work)

    def _enqueue(self, namespace: str) -> None:
        self._queue.put_nowait((asyncio.get_running_loop().time() + self._pause, namespace))


def is_terminating(namespace: bytes) -> bool:
    """Whether the encoded namespace has been deleted and still has contents."""
    return bool(meta(decode(namespace)).get("deletionTimestamp"))
