"""The snapshot of routes: the records of `penstock.routes` when a version was completed.

A record that cannot be read changes nothing: the previous record of its key stays in force. A reader that starts later
may find no previous record. Then the route is missing without having ended, and its cursors must be kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.contract.names import NameTable
from penstock.contract.records import Unreadable
from penstock.contract.routes import (
    IDENTITY_KEY,
    Identity,
    Record,
    Route,
    ServiceName,
    Target,
    TrustBundle,
    Version,
    decode,
    key_of,
    route_of_key,
)


@dataclass(frozen=True)
class Snapshot:
    """One version of everything the data plane needs. Never changes."""

    version: int = 0
    targets: Mapping[str, Target] = field(default_factory=dict)
    routes: Mapping[str, Route] = field(default_factory=dict)
    names: NameTable = field(default_factory=NameTable)
    trusted: str = ""
    """Certificates of the trust bundles, in PEM."""
    unreadable: frozenset[str] = frozenset()
    """uids of routes whose newest record cannot be read."""
    missing: int = 0
    """How many routes the version counts for which there is no key."""

    def has_ended(self, uid: str) -> bool:
        """Whether there is certainly no such route: it is neither here nor among those that cannot be read."""
        return self.version > 0 and not self.missing and uid not in self.routes and uid not in self.unreadable


class SnapshotBuilder:
    """Applies records in the order of the topic; returns a snapshot whenever a version is complete."""

    def __init__(self) -> None:
        self._targets: dict[str, Target] = {}
        self._routes: dict[str, Route] = {}
        self._names: dict[str, ServiceName] = {}
        self._bundles: dict[str, TrustBundle] = {}
        self.identity: Identity | None = None
        self.unreadable: set[str] = set()
        """Keys whose newest record cannot be read."""
        self._version = Version(0)

    def apply(self, key: str, value: bytes | None) -> Snapshot | None:
        """Applies one record; returns the snapshot if it completes a version. Raises Unreadable, changing nothing."""
        self.unreadable.discard(key)
        if value is None:
            self._drop(key)
            return None
        try:
            record = decode(key, value)
        except Unreadable:
            self.unreadable.add(key)
            raise
        match record:
            case Target():
                self._targets[record.uid] = record
            case Route():
                self._routes[record.uid] = record
            case ServiceName():
                self._names[record.host] = record
            case TrustBundle():
                self._bundles[record.name] = record
            case Identity():
                self.identity = record
            case Version():
                return self._snapshot(record)
        return None

    def records(self) -> dict[str, Record]:
        """The records in force, by key."""
        tables = (self._targets, self._routes, self._names, self._bundles)
        own = {} if self.identity is None else {IDENTITY_KEY: self.identity}
        return {**{key_of(record): record for table in tables for record in table.values()}, **own}

    @property
    def missing(self) -> int:
        """How many routes the newest version counts for which there is no key, readable or not."""
        return max(0, self._version.routes - len(self._routes) - len(self._unreadable_routes() - self._routes.keys()))

    @property
    def uncounted(self) -> int:
        """How many records the newest version does not count any more: their deletions were missed."""
        here = len(self._targets), len(self._routes), len(self._names)
        counted = self._version.targets, self._version.routes, self._version.names
        return sum(max(0, found - count) for found, count in zip(here, counted, strict=True))

    def _snapshot(self, version: Version) -> Snapshot:
        self._version = version
        names, unreadable = NameTable(self._names.values()), self._unreadable_routes()
        trusted = "".join(self._bundles[name].certificates for name in sorted(self._bundles))
        return Snapshot(
            version.version, dict(self._targets), dict(self._routes), names, trusted, unreadable, self.missing
        )

    def _unreadable_routes(self) -> frozenset[str]:
        return frozenset(uid for key in self.unreadable if (uid := route_of_key(key)) is not None)

    def _drop(self, key: str) -> None:
        if key == IDENTITY_KEY:
            self.identity = None
        kind, _, ident = key.partition("/")
        table: dict[str, dict[str, object]] = {
            "target": self._targets,  # type: ignore[dict-item]  # only removed from, by key
            "route": self._routes,  # type: ignore[dict-item]
            "name": self._names,  # type: ignore[dict-item]
            "trust": self._bundles,  # type: ignore[dict-item]
        }
        table.get(kind, {}).pop(ident, None)
