"""Stored objects in the form a client accepts: as they are, as rows of a table, or metadata only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

from penstock.apiserver.documents import decode, encode
from penstock.apiserver.http.requests import Form
from penstock.apiserver.http.responses import PIECE_BYTES
from penstock.apiserver.kinds import tables
from penstock.apiserver.kinds.registry import ServedKind
from penstock.kube.kinds import Obj

CLOSING = b"]}\n"
"""The end of a list, after its objects."""


@dataclass
class Renderer:
    """Renders stored objects for one request."""

    kind: ServedKind
    form: Form = field(default_factory=Form)
    include: str = "Metadata"
    _columns_declared: bool = False

    def one(self, body: bytes) -> bytes:
        """A single object."""
        if self.form.shape == "Object":
            return self._versioned(body)
        obj = self._decoded(body)
        if self.form.shape == "Table":
            metadata = {"resourceVersion": obj["metadata"]["resourceVersion"]}
            return encode(tables.table(self.kind, [obj], metadata, include=self.include))
        return encode(tables.partial(obj))

    def watched(self, body: bytes) -> bytes:
        """The object of a watch event; a table declares its columns only once."""
        if self.form.shape != "Table":
            return self.one(body)
        obj = self._decoded(body)
        metadata = {"resourceVersion": obj["metadata"]["resourceVersion"]}
        first, self._columns_declared = not self._columns_declared, True
        return encode(tables.table(self.kind, [obj], metadata, include=self.include, columns=first))

    def many(self, bodies: Iterable[bytes], metadata: Obj) -> Iterator[bytes]:
        """A list, in parts that follow one another, so that a long one is never joined in memory."""
        yield self.opening(metadata)
        yield from self.items(bodies)
        yield CLOSING

    def opening(self, metadata: Obj) -> bytes:
        """The beginning of a list, before its objects."""
        if self.form.shape == "Table":
            whole = encode(tables.table(self.kind, [], metadata, include=self.include))
            return whole.removesuffix(b"]}")  # the rows are its last entry
        if self.form.shape == "Object":
            kind, version = self.kind.list_kind, self.kind.api_version
        else:
            kind, version = "PartialObjectMetadataList", "meta.k8s.io/v1"
        return encode({"kind": kind, "apiVersion": version, "metadata": metadata})[:-1] + b',"items":['

    def items(self, bodies: Iterable[bytes], *, continues: bool = False) -> Iterator[bytes]:
        """The objects separated by commas; with `continues`, others precede them."""
        for item in self._items(bodies):
            if not continues:
                yield item
            elif len(item) < PIECE_BYTES:
                yield b"," + item
            else:  # too long to be copied for a comma
                yield b","
                yield item
            continues = True

    def _items(self, bodies: Iterable[bytes]) -> Iterator[bytes]:
        if self.form.shape == "Object":
            return map(self._versioned, bodies)
        objects = map(self._decoded, bodies)
        if self.form.shape == "Table":
            now = datetime.now(UTC)
            return (encode(tables.row(self.kind, obj, self.include, now)) for obj in objects)
        return (encode(tables.partial(obj)) for obj in objects)

    def _decoded(self, body: bytes) -> Obj:
        return self.kind.served(decode(body))

    def _versioned(self, body: bytes) -> bytes:
        """The object in this version; nearly always as it is stored."""
        return body if self.kind.stored_as_served else encode(self._decoded(body))
