"""Objects in SQLite: one writer thread that groups writes into transactions, and readers that never wait for it.

A write is a function of the transaction; it decides on what it reads there, so read, check and write are one step.
Its future completes only after COMMIT with `synchronous=FULL`: what a client saw acknowledged is on disk. Writes that
wait together share one COMMIT. Each runs in a savepoint, so one that raises leaves nothing behind.

If the writer thread fails, the component ends with it, and every waiting write fails.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

from penstock.apiserver.documents import decode, encode, meta
from penstock.apiserver.errors import ApiError, too_large
from penstock.apiserver.store import database
from penstock.apiserver.store.database import open_database
from penstock.apiserver.store.encryption import Keyring
from penstock.kube.kinds import Obj
from penstock.runtime.tasks import OwnedThread, TaskScope

T = TypeVar("T")
Key = tuple[str, str, str]
"""Resource, namespace, name."""

WRITES_PER_COMMIT = 64
CLOSE_SECONDS = 30.0
"""Time for the writer to finish the queued writes."""
MAX_OBJECT_BYTES = 3 * 1024 * 1024
"""Patches could let an object grow beyond what a single request may carry."""
PART_BYTES = 4 * 1024 * 1024
"""Bytes of objects of a kind that are read or removed at once; exceeded by at most one object."""
SNAPSHOT_SECONDS = 10.0
"""How long all parts of a list show one state. SQLite keeps every change since a snapshot in its log, so a client that
takes longer gets the rest from a newer snapshot."""
SPARE_SNAPSHOTS = 4


@dataclass(frozen=True, slots=True)
class Change:
    """One committed step of one object; `before` is None when it was added."""

    version: int
    type: str
    resource: str
    namespace: str
    name: str
    body: bytes
    before: bytes | None

    @property
    def size(self) -> int:
        """Its approximate size in memory."""
        return len(self.body) + len(self.before or b"") + 200


@dataclass(frozen=True, slots=True)
class ListPage:
    """A part of a list: bodies in order, the version it shows, and where the next part starts."""

    bodies: list[bytes]
    version: int
    next_key: tuple[str, str] | None
    remaining: int


class Transaction:
    """The reads and writes of one write function; used on the writer's thread only."""

    def __init__(self, connection: sqlite3.Connection, keyring: Keyring | None = None) -> None:
        self._connection, self._keyring = connection, keyring or Keyring()
        self.version: int = connection.execute(database.VERSION).fetchone()[0]
        self.changes: list[Change] = []
        self.changed_bytes = 0
        """Size of the changes in memory."""

    def get(self, resource: str, namespace: str, name: str) -> Obj | None:
        """The object as stored, or None."""
        body = self._body(resource, namespace, name)
        return None if body is None else decode(body)

    def put(self, resource: str, obj: Obj) -> Obj:
        """Stores the object under the next version and returns it with that version."""
        metadata = meta(obj)
        key = (resource, metadata.get("namespace", ""), metadata["name"])
        before = self._body(*key)
        self.version += 1
        metadata["resourceVersion"] = str(self.version)
        body = encode(obj)
        if len(body) > MAX_OBJECT_BYTES:
            raise too_large(MAX_OBJECT_BYTES)
        record = self._keyring.encrypt(*key, body)
        self._connection.execute(database.PUT, (*key, metadata["uid"], self.version, record))
        self._note_owners(obj)
        self._note(Change(self.version, "MODIFIED" if before else "ADDED", *key, body, before))
        return obj

    def remove(self, resource: str, obj: Obj) -> Obj:
        """Removes the object; the version of its deletion becomes its last."""
        metadata = meta(obj)
        key = (resource, metadata.get("namespace", ""), metadata["name"])
        before = self._body(*key)
        self.version += 1
        metadata["resourceVersion"] = str(self.version)
        self._connection.execute(database.REMOVE, key)
        self._connection.execute(database.REMOVE_OWNERS, (metadata["uid"],))
        self._note(Change(self.version, "DELETED", *key, encode(obj), before))
        return obj

    def by_uid(self, uid: str) -> tuple[str, Obj] | None:
        """The resource and object with this uid."""
        row = self._connection.execute(database.BY_UID, (uid,)).fetchone()
        return (row[0], decode(self._keyring.decrypt(*row))) if row else None

    def dependents(self, uid: str) -> list[str]:
        """Uids of the objects that name this one as an owner."""
        return [row[0] for row in self._connection.execute(database.DEPENDENTS, (uid,))]

    def keys_of_namespace(self, namespace: str, *, after: tuple[str, str] = ("", ""), limit: int) -> list[Key]:
        """What is in a namespace, in the order of resource and name: at most `limit` objects after the key `after`."""
        rows = self._connection.execute(database.KEYS_OF_NAMESPACE, (namespace, *after, limit)).fetchall()
        return [(resource, namespace, name) for resource, name in rows]

    def keys_of_resource(self, resource: str) -> list[Key]:
        """Every object of a kind."""
        rows = self._connection.execute(database.KEYS_OF_RESOURCE, (resource,)).fetchall()
        return [(resource, namespace, name) for namespace, name in rows]

    def namespace_empty(self, namespace: str) -> bool:
        """Whether nothing is in the namespace."""
        return self._connection.execute(database.ANY_IN_NAMESPACE, (namespace,)).fetchone() is None

    def resource_empty(self, resource: str) -> bool:
        """Whether the kind has no objects."""
        return self._connection.execute(database.ANY_OF_RESOURCE, (resource,)).fetchone() is None

    def _note(self, change: Change) -> None:
        self.changes.append(change)
        self.changed_bytes += change.size

    def _body(self, resource: str, namespace: str, name: str) -> bytes | None:
        row = self._connection.execute(database.GET, (resource, namespace, name)).fetchone()
        return self._keyring.decrypt(resource, namespace, name, row[0]) if row else None

    def _note_owners(self, obj: Obj) -> None:
        metadata = meta(obj)
        uid = metadata["uid"]
        self._connection.execute(database.REMOVE_OWNERS, (uid,))
        for owner in metadata.get("ownerReferences") or ():
            self._connection.execute(database.ADD_OWNER, (owner["uid"], uid))


class _Waiting:
    """A write queued for the writer thread, and the future of its caller."""

    def __init__(self, work: Callable[[Transaction], Any], dry_run: bool, future: asyncio.Future[Any]) -> None:
        self.work, self.dry_run, self.future = work, dry_run, future
        self.result: Any = None
        self.error: BaseException | None = None

    def settle(self) -> None:
        """Completes the future, unless its caller was cancelled."""
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


class Store:
    """The store; made and used on one event loop."""

    def __init__(
        self, path: Path, on_commit: Callable[[list[Change]], None], owner: TaskScope, keyring: Keyring | None = None
    ) -> None:
        self._on_commit, self._owner, self._keyring = on_commit, owner, keyring or Keyring()
        self._broken = False
        self._path = path
        self._writer = open_database(path)
        self._writer.executescript(files("penstock.apiserver.store").joinpath("tables.sql").read_text())
        self._reader, self._lister = open_database(path), open_database(path)
        self._spare: list[_Snapshot] = []
        self._loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._thread = OwnedThread("api-writer", self._write_all, owner.fail)
        self._thread.start()
        self._lists = ThreadPoolExecutor(1, "api-lister")

    async def write(self, work: Callable[[Transaction], T], *, dry_run: bool = False) -> T:
        """Runs `work` in a transaction and returns its result once that is committed; dry runs are undone."""
        if self._broken:
            raise _writer_ended()
        future: asyncio.Future[T] = self._loop.create_future()
        self._queue.put(_Waiting(work, dry_run, future))
        return await future

    def get(self, resource: str, namespace: str, name: str) -> bytes | None:
        """The committed object, encoded."""
        row = self._reader.execute(database.GET, (resource, namespace, name)).fetchone()
        return self._keyring.decrypt(resource, namespace, name, row[0]) if row else None

    def version(self) -> int:
        """The version of the last committed change."""
        version: int = self._reader.execute(database.VERSION).fetchone()[0]
        return version

    async def page(
        self,
        resource: str,
        namespace: str | None,
        *,
        keep: Callable[[bytes], bool] | None = None,
        limit: int = 0,
        max_bytes: int = 0,
        after: tuple[str, str] = ("", ""),
    ) -> ListPage:
        """The committed objects of a kind, in all namespaces if `namespace` is None: all of them, or so many as the
        limit and the bytes allow."""

        def read() -> ListPage:
            with _snapshot(self._lister) as connection:
                return self._read_page(
                    connection, resource, namespace, keep, limit=limit, max_bytes=max_bytes, after=after
                )

        return await self._loop.run_in_executor(self._lists, read)

    async def parts(
        self,
        resource: str,
        namespace: str | None,
        *,
        keep: Callable[[bytes], bool] | None = None,
        after: tuple[str, str] = ("", ""),
    ) -> AsyncGenerator[ListPage, None]:
        """The same in pages that fit into memory, however many objects there are and however large.

        They show one state, unless they are read very slowly. Even then, a watch from the version of the first page
        misses nothing: it shows the changes that were made meanwhile again.
        """
        snapshot = self._spare.pop() if self._spare else _Snapshot(self._path)
        start: tuple[str, str] | None = after
        try:
            while start is not None:
                read = partial(self._part, snapshot, resource, namespace, keep, after=start)
                page = await self._loop.run_in_executor(self._lists, read)
                start = page.next_key
                yield page
        finally:
            self._give_back(snapshot)

    async def close(self) -> None:
        """Ends after all queued writes."""
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join, CLOSE_SECONDS)
        self._lists.shutdown()
        for connection in (self._reader, self._lister, self._writer, *(one.connection for one in self._spare)):
            connection.close()

    def _part(
        self,
        snapshot: _Snapshot,
        resource: str,
        namespace: str | None,
        keep: Callable[[bytes], bool] | None,
        *,
        after: tuple[str, str],
    ) -> ListPage:
        page = self._read_page(
            snapshot.fresh_enough(), resource, namespace, keep, limit=0, max_bytes=PART_BYTES, after=after
        )
        if page.next_key is None:
            snapshot.end()
        return page

    def _give_back(self, snapshot: _Snapshot) -> None:
        def end() -> None:
            snapshot.end()
            if len(self._spare) < SPARE_SNAPSHOTS:
                self._spare.append(snapshot)
            else:
                snapshot.connection.close()

        try:
            self._lists.submit(end)  # after a read that may still be running for a client that has left
        except RuntimeError:  # the store has closed
            snapshot.connection.close()

    def _read_page(
        self,
        connection: sqlite3.Connection,
        resource: str,
        namespace: str | None,
        keep: Callable[[bytes], bool] | None,
        *,
        limit: int,
        max_bytes: int,
        after: tuple[str, str],
    ) -> ListPage:
        wanted = limit + 1 if limit else -1
        version = connection.execute(database.VERSION).fetchone()[0]
        # A selector is applied here, so the database must not stop at `limit` before it.
        bound = -1 if keep else wanted
        if namespace is None:
            rows = connection.execute(database.LIST_ALL, (resource, *after, bound))
        else:
            rows = connection.execute(database.LIST_NAMESPACE, (resource, namespace, after[1], bound))
        bodies: list[bytes] = []
        last, more, size = after, False, 0
        for row_namespace, name, record in rows:
            body = self._keyring.decrypt(resource, row_namespace, name, record)
            if keep and not keep(body):
                continue
            if (limit and len(bodies) == limit) or (max_bytes and size >= max_bytes):
                more = True
                break
            bodies.append(body)
            size += len(body)
            last = (row_namespace, name)
        rows.close()
        remaining = 0
        if more and limit and not keep:
            count = (
                connection.execute(database.COUNT_ALL, (resource, *last))
                if namespace is None
                else connection.execute(database.COUNT_NAMESPACE, (resource, namespace, last[1]))
            )
            remaining = count.fetchone()[0]
        return ListPage(bodies, version, last if more else None, remaining)

    def _write_all(self) -> None:
        batch: list[_Waiting] = []
        try:
            self._write_batches(batch)
        except BaseException:  # SystemExit as well: callers would wait forever
            self._loop.call_soon_threadsafe(self._abandon, batch)
            raise

    def _write_batches(self, batch: list[_Waiting]) -> None:
        """Writes until `close`. `batch` holds the writes in progress."""
        running = True
        while running:
            running = self._gather(batch)
            if batch:
                self._loop.call_soon_threadsafe(self._committed, tuple(batch), self._write(batch))
                # Written objects must not stay in memory until the next write, which may be hours away.
                batch.clear()

    def _gather(self, batch: list[_Waiting]) -> bool:
        """Waits for a write and adds those queued behind it; false when the store is closing."""
        following = self._queue.get()
        while following is not None:
            batch.append(following)
            if len(batch) == WRITES_PER_COMMIT:
                return True
            try:
                following = self._queue.get_nowait()
            except queue.Empty:
                return True
        return False

    def _write(self, batch: list[_Waiting]) -> list[Change]:
        connection = self._writer
        try:
            connection.execute("BEGIN IMMEDIATE")
            transaction = Transaction(connection, self._keyring)
            for waiting in batch:
                _run(connection, transaction, waiting)
            if transaction.changes:
                connection.execute(database.SET_VERSION, (transaction.version,))
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            for waiting in batch:
                waiting.error = ApiError(500, "InternalError", f"the change could not be written to disk: {error}")
            return []
        return transaction.changes

    def _committed(self, batch: Sequence[_Waiting], changes: list[Change]) -> None:
        try:
            if changes:
                self._on_commit(changes)
        except Exception as error:
            # Any failure here means that watches and definitions no longer show what is stored: the component must end.
            self._owner.fail(error)
        finally:
            for waiting in batch:
                waiting.settle()

    def _abandon(self, batch: list[_Waiting]) -> None:
        """The writer thread has failed: so do all waiting writes."""
        self._broken = True
        waiting: _Waiting | None
        while not self._queue.empty():
            if (waiting := self._queue.get_nowait()) is not None:
                batch.append(waiting)
        for waiting in batch:
            waiting.error = _writer_ended()
            waiting.settle()


def _writer_ended() -> ApiError:
    return ApiError(500, "InternalError", "the change could not be written: the API server ends and is started again")


def _run(connection: sqlite3.Connection, transaction: Transaction, waiting: _Waiting) -> None:
    version, count = transaction.version, len(transaction.changes)
    connection.execute("SAVEPOINT one_write")
    try:
        waiting.result = waiting.work(transaction)
        undo = waiting.dry_run
    except sqlite3.Error:
        raise
    except Exception as error:  # whatever the write function raises is raised to its caller, and the write undone
        waiting.error, undo = error, True
    if undo:
        connection.execute("ROLLBACK TO one_write")
        transaction.version = version
        del transaction.changes[count:]
    connection.execute("RELEASE one_write")


class _Snapshot:
    """A connection that shows one state for a while. Used by the list thread only, once it is created."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.connection = open_database(path)
        self._clock, self._began = clock, 0.0

    def fresh_enough(self) -> sqlite3.Connection:
        """The connection at its previous state, or at a new one if that is too old."""
        if self.connection.in_transaction and self._clock() - self._began > SNAPSHOT_SECONDS:
            self.end()
        if not self.connection.in_transaction:
            self.connection.execute("BEGIN")
            self._began = self._clock()
        return self.connection

    def end(self) -> None:
        """Ends the snapshot; the next read starts a new one."""
        if self.connection.in_transaction:
            self.connection.execute("COMMIT")


@contextmanager
def _snapshot(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """One consistent state for several reads."""
    connection.execute("BEGIN")
    try:
        yield connection
    finally:
        connection.execute("COMMIT")
