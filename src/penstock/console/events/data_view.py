"""An event's data as a person can look at it: JSON to fold, text, or bytes. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from penstock.console.events.folded_json import JsonNode, folded
from penstock.events import media_type

MOST_JSON = 1024 * 1024
MOST_TEXT = 64 * 1024
MOST_BYTES = 4096
"""What of the data is shown; all of it can be downloaded."""

PER_LINE = 16

_NO_TEXT = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
"""Control characters that texts do not have."""


@dataclass(frozen=True)
class DataView:
    """What is shown of data, in one of three ways."""

    size: int
    content_type: str = ""
    tree: JsonNode | None = None
    text: str | None = None
    hex_lines: tuple[str, ...] = ()
    left: int = 0
    """Bytes that are not shown."""


def view_of(data: bytes | None, content_type: str | None) -> DataView | None:
    """How the data is shown; None where there is none."""
    if data is None:
        return None
    size, named = len(data), content_type or ""
    if _may_be_json(named) and size <= MOST_JSON and (tree := folded(data)) is not None:
        return DataView(size, named, tree=tree)
    if (text := _text(data)) is not None:
        return DataView(size, named, text=text, left=max(0, size - MOST_TEXT))
    return DataView(size, named, hex_lines=tuple(hex_dump(data[:MOST_BYTES])), left=max(0, size - MOST_BYTES))


def hex_dump(data: bytes) -> list[str]:
    """Bytes as `hexdump -C` shows them: offset, values, characters."""
    return [_line(start, data[start : start + PER_LINE]) for start in range(0, len(data), PER_LINE)]


def _line(start: int, part: bytes) -> str:
    half = PER_LINE // 2
    values = f"{part[:half].hex(' '):<{half * 3 - 1}}  {part[half:].hex(' '):<{half * 3 - 1}}"
    characters = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in part)
    return f"{start:08x}  {values}  |{characters}|"


def _may_be_json(content_type: str) -> bool:
    """Data without a content type is JSON, as CloudEvents has it."""
    media = media_type.parse(content_type) if content_type else None
    return not content_type or (media is not None and media.is_json)


def _text(data: bytes) -> str | None:
    """The beginning of what is text; None where it is none."""
    shown = data[:MOST_TEXT]
    if _NO_TEXT.search(shown):
        return None
    try:
        return shown.decode()
    except UnicodeDecodeError as error:
        # The cut may have gone through a character.
        whole = len(data) > MOST_TEXT and error.start > MOST_TEXT - 4
        return shown[: error.start].decode() if whole else None
