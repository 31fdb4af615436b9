"""The part of an object's metadata that names it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Identity:
    """Which object, and which state of its spec."""

    namespace: str
    name: str
    uid: str
    generation: int = 0

    @classmethod
    def read(cls, obj: dict[str, Any]) -> Identity:
        """The identity of a stored object."""
        metadata = obj.get("metadata") or {}
        return cls(
            str(metadata.get("namespace") or ""),
            str(metadata.get("name") or ""),
            str(metadata.get("uid") or ""),
            int(metadata.get("generation") or 0),
        )
