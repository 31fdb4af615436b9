"""Records that cannot be read: damaged, written by somebody else, or by a version that this one does not understand."""

from __future__ import annotations

from typing import TypeVar

import msgspec

T = TypeVar("T")


class Unreadable(ValueError):
    """The record is not what its topic holds. Whoever reads it passes it over and says so; nothing else is harmed."""


def read_json(value: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """The value as JSON of the decoder's shape. Raises Unreadable.

    Decoders are made when their module is imported: msgspec learns a type when it is first asked for it, and where two
    threads ask at once, the process ends with a segmentation fault.
    """
    try:
        return decoder.decode(value)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Unreadable(f"{type(error).__name__}: {error}") from error
