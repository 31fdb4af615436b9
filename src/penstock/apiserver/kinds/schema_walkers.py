"""The walker of each kind: its schema with the metadata that all kinds share."""

from __future__ import annotations

from functools import lru_cache

from penstock.apiserver.kinds.core_kinds import DEFINITIONS, OBJECT_META
from penstock.apiserver.kinds.registry import ServedKind
from penstock.apiserver.kinds.schema import Walker


@lru_cache(1024)
def walker_of(kind: ServedKind) -> Walker:
    """The walker over objects of this kind."""
    properties = {**(kind.schema.get("properties") or {}), "metadata": OBJECT_META}
    return Walker({**kind.schema, "properties": properties}, DEFINITIONS)
