"""Stored objects in the form a client asked for: as they are, as rows of a table, or metadata only."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.apiserver.documents import Obj, decode, encode
from penstock.apiserver.http.requests import Form
from penstock.apiserver.kinds import tables
from penstock.apiserver.kinds.registry import ServedKind


@dataclass
class Renderer:
    """Turns stored bytes into answers for one request."""

    kind: ServedKind
    form: Form = field(default_factory=Form)
    include: str = "Metadata"
    _columns_told: bool = False

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
        first, self._columns_told = not self._columns_told, True
        return encode(tables.table(self.kind, [obj], metadata, include=self.include, columns=first))

    def many(self, bodies: list[bytes], metadata: Obj) -> list[bytes]:
        """A list, in pieces that are sent one after another, so that a long one is never joined in memory."""
        if self.form.shape == "Table":
            rows = map(self._decoded, bodies)
            return [encode(tables.table(self.kind, rows, metadata, include=self.include))]
        if self.form.shape == "Object":
            kind, version = self.kind.list_kind, self.kind.api_version
            parts = [self._versioned(body) for body in bodies]
        else:
            kind, version = "PartialObjectMetadataList", "meta.k8s.io/v1"
            parts = [encode(tables.partial(self._decoded(body))) for body in bodies]
        head = encode({"kind": kind, "apiVersion": version, "metadata": metadata})[:-1] + b',"items":['
        groups = (parts[start : start + 64] for start in range(0, len(parts), 64))
        pieces = [(b"," if place else b"") + b",".join(group) for place, group in enumerate(groups)]
        return [head, *pieces, b"]}\n"]

    def _decoded(self, body: bytes) -> Obj:
        return self.kind.served(decode(body))

    def _versioned(self, body: bytes) -> bytes:
        """Nearly always the stored object is the answer as it is."""
        return body if self.kind.stored_as_served else encode(self._decoded(body))
