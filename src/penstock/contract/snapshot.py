"""The snapshot of routes: the records of `penstock.routes` as they stood when a version was completed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.contract.names import NameTable
from penstock.contract.routes import Route, ServiceName, Target, Version, decode


@dataclass(frozen=True)
class Snapshot:
    """One version of everything the data plane needs. Never changes."""

    version: int = 0
    targets: Mapping[str, Target] = field(default_factory=dict)
    routes: Mapping[str, Route] = field(default_factory=dict)
    names: NameTable = field(default_factory=NameTable)


class SnapshotBuilder:
    """Takes records in the order of the topic; gives a snapshot whenever a version is complete."""

    def __init__(self) -> None:
        self._targets: dict[str, Target] = {}
        self._routes: dict[str, Route] = {}
        self._names: dict[str, ServiceName] = {}

    def apply(self, key: str, value: bytes | None) -> Snapshot | None:
        """Takes one record; returns the snapshot if it completes a version. Raises Unreadable, having taken nothing."""
        if value is None:
            self._drop(key)
            return None
        match record := decode(key, value):
            case Target():
                self._targets[record.uid] = record
            case Route():
                self._routes[record.uid] = record
            case ServiceName():
                self._names[record.host] = record
            case Version():
                return Snapshot(
                    record.version, dict(self._targets), dict(self._routes), NameTable(self._names.values())
                )
        return None

    def _drop(self, key: str) -> None:
        kind, _, ident = key.partition("/")
        table: dict[str, dict[str, object]] = {
            "target": self._targets,  # type: ignore[dict-item]  # only removed from, by key
            "route": self._routes,  # type: ignore[dict-item]
            "name": self._names,  # type: ignore[dict-item]
        }
        table.get(kind, {}).pop(ident, None)
