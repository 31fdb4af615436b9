"""Records that cannot be read: damaged, written by somebody else, or by a version that this one does not understand."""

from __future__ import annotations

from typing import TypeVar

import msgspec

T = TypeVar("T")


class Unreadable(ValueError):
    """The record is not what its topic holds. Whoever reads it passes it over and says so; nothing else is harmed."""


def read_json(value: bytes, kind: type[T]) -> T:
    """The value as JSON of the given shape. Raises Unreadable."""
    try:
        return msgspec.json.decode(value, type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Unreadable(f"{type(error).__name__}: {error}") from error
