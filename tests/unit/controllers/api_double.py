"""An API server in memory for unit tests of reconcilers: stores, admits, watches, collects owned objects.

It is honest about what controllers must cope with: optimistic concurrency, status as a subresource, generations that
move with the spec, and deletions that arrive as events.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import dataclasses
import itertools
import threading
from collections.abc import AsyncIterator, Callable, Sequence

from penstock.contract.records import Unreadable
from penstock.contract.routes import VERSION_KEY, Version, decode
from penstock.history.reader.table_events import FirstKept
from penstock.kafka.routes import NotTaken, StoredReader, StoredRoutes
from penstock.kafka.topic_ends import Retained
from penstock.kube.client import Listing
from penstock.kube.errors import KubeError, error_of_status
from penstock.kube.kinds import CONFIG_MAP, NAMESPACE, Key, Kind, Obj, key_of
from penstock.kube.paths import api_path
from penstock.resources.admission import CONTROLLER_USER, SYSTEM_NAMESPACE
from penstock.resources.registry import ADMISSION, AdmissionContext, bootstrap_configmaps
from penstock.settings import Settings


def refuse(code: int, message: str) -> KubeError:
    """The error of an answer with this status."""
    return error_of_status({"code": code, "message": message})


def _configures(kind: Kind, key: Key) -> bool:
    return kind == CONFIG_MAP and key.namespace == SYSTEM_NAMESPACE


def _in(key: Key, namespace: str | None) -> bool:
    return namespace in (None, key.namespace)


class ApiDouble:
    """Offers what `AsyncClient` offers, and what a user does."""

    def __init__(self, settings: Settings, unserved: set[Kind] | None = None) -> None:
        self._settings = settings
        self._objects: dict[tuple[Kind, Key], Obj] = {}
        self._versions = itertools.count(1)
        self._last = 0
        self._uids = itertools.count(1)
        self._watches: list[tuple[Kind, asyncio.Queue[tuple[str, Obj]]]] = []
        self.unserved = unserved or set()
        self.forbidden: set[Kind] = set()
        self.not_listed: set[Kind] = set()
        self.denied: set[tuple[str, Kind]] = set()
        """Users and kinds that they may do nothing to."""
        self.url = "https://api"
        self.status_writes = 0
        self.journal: list[str] = []
        """Every change, for a test that fails."""
        self.apply(NAMESPACE, {"metadata": {"name": "kube-system"}})
        self._objects[NAMESPACE, Key("", "kube-system")]["metadata"]["uid"] = "this cluster"
        for configmap in bootstrap_configmaps(settings):
            self.apply(CONFIG_MAP, configmap)

    async def close(self) -> None:
        """Nothing is held."""

    def acting_as(self, user: str) -> ApiDouble:
        return self

    async def is_allowed(self, spec: Obj) -> bool:
        asked = spec["resourceAttributes"]
        denied = {(user, kind.group, kind.plural) for user, kind in self.denied}
        return (spec["user"], asked["group"], asked["resource"]) not in denied

    async def list(self, kind: Kind, namespace: str | None = None) -> Listing:
        await asyncio.sleep(0)
        api_path(kind.api_version, kind.plural)
        if kind in self.not_listed:
            raise refuse(405, "the server does not allow this method on the requested resource")
        if kind in self.unserved:
            raise refuse(404, "the server could not find the requested resource")
        if kind in self.forbidden:
            raise refuse(403, f'{kind.qualified_plural} is forbidden: User "penstock" cannot list it')
        found = [copy.deepcopy(obj) for (k, key), obj in self._objects.items() if k == kind and _in(key, namespace)]
        self._watches.append((kind, asyncio.Queue()))
        return Listing(found, str(len(self._watches) - 1))

    @contextlib.asynccontextmanager
    async def watch(
        self, kind: Kind, version: str, namespace: str | None = None
    ) -> AsyncIterator[AsyncIterator[tuple[str, Obj]]]:
        # A watch starts at its list, so the list's number names the queue that has filled since.
        yield self._changes(self._watches[int(version)][1], namespace)

    async def _changes(
        self, watched: asyncio.Queue[tuple[str, Obj]], namespace: str | None
    ) -> AsyncIterator[tuple[str, Obj]]:
        while True:
            change, obj = await watched.get()
            if change == "CUT":
                raise refuse(410, "too old resource version")
            if _in(key_of(obj), namespace):
                yield change, obj

    async def create(self, kind: Kind, obj: Obj) -> Obj:
        await asyncio.sleep(0)
        return self.apply(kind, obj, user=CONTROLLER_USER, create_only=True)

    async def read(self, kind: Kind, key: Key) -> Obj | None:
        await asyncio.sleep(0)
        return self.get(kind, *key)

    async def replace(self, kind: Kind, obj: Obj) -> Obj:
        await asyncio.sleep(0)
        self._fits(kind, obj)
        return self.apply(kind, obj, user=CONTROLLER_USER)

    async def replace_status(self, kind: Kind, obj: Obj) -> Obj:
        await asyncio.sleep(0)
        held = self._fits(kind, obj)
        self.status_writes += 1
        return self._store(kind, {**copy.deepcopy(held), "status": copy.deepcopy(obj["status"])}, "MODIFIED")

    async def delete(self, kind: Kind, key: Key) -> None:
        await asyncio.sleep(0)
        self.remove(kind, key)

    def apply(self, kind: Kind, obj: Obj, *, user: str = "jane", create_only: bool = False) -> Obj:
        """Creates or changes an object, with defaults and validation."""
        key = key_of(obj)
        held = self._objects.get((kind, key))
        if held is not None and create_only:
            raise refuse(409, "already exists")
        named = {**copy.deepcopy(obj), "apiVersion": kind.api_version, "kind": kind.kind}
        stored = self._admitted(kind, named, held, user)
        metadata = stored["metadata"]
        if held is None:
            metadata["uid"] = f"uid-{next(self._uids)}"
            metadata["generation"] = 1
        else:
            metadata["uid"] = held["metadata"]["uid"]
            same = stored.get("spec") == held.get("spec")
            metadata["generation"] = held["metadata"]["generation"] + (0 if same else 1)
            if kind.group:
                stored["status"] = copy.deepcopy(held.get("status") or {})
            if metadata.get("deletionTimestamp") and not metadata.get("finalizers"):
                self._drop(kind, key)
                return stored
        return self._store(kind, stored, "ADDED" if held is None else "MODIFIED")

    def remove(self, kind: Kind, key: Key) -> None:
        """Deletes an object and what it owns; one with finalizers goes when the last of them has gone."""
        held = self._objects.get((kind, key))
        if held is None:
            raise refuse(404, "not found")
        if held["metadata"].get("finalizers"):
            held["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            self._store(kind, held, "MODIFIED")
        else:
            self._drop(kind, key)

    def _drop(self, kind: Kind, key: Key) -> None:
        held = self._objects.pop((kind, key))
        held["metadata"]["resourceVersion"] = self._next()
        self._announce(kind, "DELETED", held)
        for (other, other_key), obj in list(self._objects.items()):
            owners = obj["metadata"].get("ownerReferences") or []
            left = [owner for owner in owners if owner["uid"] != held["metadata"]["uid"]]
            if owners and not left:
                self.remove(other, other_key)
            elif left != owners:
                obj["metadata"]["ownerReferences"] = left
                self._store(other, obj, "MODIFIED")

    def get(self, kind: Kind, namespace: str, name: str) -> Obj | None:
        """The object as stored."""
        return copy.deepcopy(self._objects.get((kind, Key(namespace, name))))

    def peek(self, kind: Kind, namespace: str, name: str) -> Obj | None:
        """The stored object itself, to look at and not to change."""
        return self._objects.get((kind, Key(namespace, name)))

    def all(self, kind: Kind) -> dict[Key, Obj]:
        """Every object of the kind."""
        return {key: copy.deepcopy(obj) for (k, key), obj in self._objects.items() if k == kind}

    @property
    def version(self) -> int:
        """Rises with every write."""
        return self._last

    def describe(self) -> Sequence[str]:
        """Every object with its conditions, for a test that waited in vain."""
        lines = []
        for (kind, key), obj in self._objects.items():
            conditions = (obj.get("status") or {}).get("conditions") or []
            states = {c["type"]: (c["status"], c.get("reason"), c.get("message")) for c in conditions}
            lines.append(f"{kind.kind} {key.namespace}/{key.name}: {states}")
        return lines

    def cut_watches(self) -> None:
        """Ends every watch with a 410."""
        for _, queue in self._watches:
            while not queue.empty():
                queue.get_nowait()
            queue.put_nowait(("CUT", {}))

    def _next(self) -> str:
        self._last = next(self._versions)
        return str(self._last)

    def _fits(self, kind: Kind, obj: Obj) -> Obj:
        held = self._objects.get((kind, key_of(obj)))
        if held is None:
            raise refuse(404, "not found")
        if held["metadata"]["resourceVersion"] != obj["metadata"]["resourceVersion"]:
            raise refuse(409, "the object has been modified")
        return held

    def _admitted(self, kind: Kind, obj: Obj, held: Obj | None, user: str) -> Obj:
        admission = ADMISSION.get((kind.group, kind.kind))
        if admission is None:
            return obj
        maps = {key.name: obj["data"] for (kept, key), obj in self._objects.items() if _configures(kept, key)}
        operation = "CREATE" if held is None else "UPDATE"
        namespace = obj["metadata"]["namespace"]
        ctx = AdmissionContext(user, namespace, maps, self._settings, operation, held, may_subscribe=lambda _: True)
        filled = admission.default(obj, ctx)
        admission.validate(filled, held, ctx)
        return filled

    def _store(self, kind: Kind, obj: Obj, change: str) -> Obj:
        obj["apiVersion"], obj["kind"] = kind.api_version, kind.kind
        obj["metadata"]["resourceVersion"] = self._next()
        self._objects[kind, key_of(obj)] = obj
        self._announce(kind, change, obj)
        return copy.deepcopy(obj)

    def _announce(self, kind: Kind, change: str, obj: Obj) -> None:
        self.journal.append(f"{change} {kind.kind} {obj['metadata']['name']} {obj.get('status') or obj.get('spec')}")
        for watched, queue in self._watches:
            if watched == kind:
                queue.put_nowait((change, copy.deepcopy(obj)))


class Watch:
    """There is no thread that would have to end."""

    def stop(self) -> None:
        """It has."""


class TopicDouble:
    """`RoutesTopic` in memory."""

    def __init__(self) -> None:
        self.records: dict[str, bytes] = {}
        self.complete = True
        self.watched = asyncio.Event()
        """Set once somebody hears of records that cannot be read."""
        self._found: Callable[[str], None] = lambda _: None
        self.writes: list[list[str]] = []
        self.firsts: tuple[int, ...] = (0, 0)
        self.ends: tuple[int, ...] = (0, 0)
        self.table: dict[int, FirstKept] = {}
        """Where the history's table begins."""
        self.fail = 0
        """Writes to come that reach nothing."""
        self.largest = 1_000_000
        """Bytes of a record."""
        self.unacknowledged: list[int | None] = []
        """Writes to come of which so many records are stored (None: all, the version too) although they fail."""
        self.snapshots: list[tuple[int, dict[str, bytes]]] = []
        """What a reader has seen: the number of each version and the records it completed."""
        self._changing = threading.Lock()
        """The controllers write from a thread of their own while a test looks."""

    def read(self) -> StoredRoutes:
        reader = StoredReader()
        with self._changing:
            records, complete = dict(self.records), self.complete and VERSION_KEY in self.records
        for key, value in records.items():
            with contextlib.suppress(Unreadable):
                reader.apply(key, value)
        return dataclasses.replace(reader.stored(), complete=complete)

    def look(self) -> StoredRoutes:
        return self.read()

    def write(self, changes: list[tuple[str, bytes | None]], version: bytes) -> None:
        if self.fail:
            self.fail -= 1
            raise OSError("Kafka is away")
        for key, value in changes:
            if value is not None and len(value) > self.largest:
                raise NotTaken(key, len(value))
        lost = bool(self.unacknowledged)
        until = self.unacknowledged.pop(0) if lost else None
        if not lost:
            self.writes.append([key for key, _ in changes])
        for key, value in [*changes, (VERSION_KEY, version)][:until]:
            self._store(key, value)
        if lost:
            raise OSError("the acknowledgement was lost")

    def _store(self, key: str, value: bytes | None) -> None:
        with self._changing:
            self.complete = key == VERSION_KEY
            self.records.pop(key, None)  # the newest record of a key is where it was written last
            if value is None:
                return
            self.records[key] = value
        if isinstance(version := decode(key, value), Version):
            self.snapshots.append((version.version, {k: v for k, v in self.records.items() if k != VERSION_KEY}))

    def watch_unreadable(self, found: Callable[[str], None], _: object) -> Watch:
        self._found = found
        self.watched.set()
        return Watch()

    def spoil(self, key: str) -> None:
        """Somebody writes what cannot be read, and it is noticed."""
        with self._changing:
            self.records[key] = b"\xff{"
        self._found(key)

    def look_after(self) -> None:
        """There is no client that would have to be heard."""

    def retained_events(self) -> tuple[Retained, ...]:
        return tuple(Retained(first, end) for first, end in zip(self.firsts, self.ends, strict=True))

    def events_since(self, moment: float) -> tuple[int, ...]:
        """One event a second, the newest of each partition now: at second 1000."""
        return tuple(min(end, max(0, end - int(1000 - moment))) for end in self.ends)

    def kept(self, _: float) -> dict[int, FirstKept]:
        return self.table
