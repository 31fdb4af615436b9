"""The CloudEvent value: context attributes in their canonical string form, and data as bytes.

An event keeps its version (1.0 or 0.3), every attribute and extension, and its data byte for byte.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

REQUIRED = ("specversion", "id", "source", "type")
VERSIONS = ("1.0", "0.3")


class MalformedEvent(ValueError):
    """An invalid CloudEvent. The message says which attribute is wrong and why."""


class CloudEvent(msgspec.Struct, frozen=True):
    """One event. A Struct because it is made in a quarter of the time that a frozen dataclass takes."""

    attributes: Mapping[str, str]
    """`specversion`, `id`, `source`, `type`, then optional attributes and extensions, names in lower case."""
    data: bytes | None = None
    """None where the event has no data, which is not the same as empty data."""

    @property
    def id(self) -> str:
        return self.attributes["id"]

    @property
    def source(self) -> str:
        return self.attributes["source"]

    @property
    def type(self) -> str:
        return self.attributes["type"]

    @property
    def specversion(self) -> str:
        return self.attributes["specversion"]

    def with_attributes(self, **changes: str | None) -> CloudEvent:
        """The same event with some attributes set, or removed where None."""
        merged = {**self.attributes, **changes}
        return CloudEvent({name: value for name, value in merged.items() if value is not None}, self.data)
