"""The data of an event for display: JSON as a tree that can be folded, text, or bytes. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from penstock.events import media_type

MOST_NODES = 1500
MOST_CHARACTERS = 2000
"""Of one string."""
OPEN_NODES = 40
"""What has no more entries than this, and is not deep, is open from the start."""
OPEN_DEPTH = 3

Kind = Literal["object", "array", "string", "number", "literal", "rest"]


class Number(str):
    """A number as it is written: 1.0 and 1e400 are shown unchanged."""

    __slots__ = ()


@dataclass(frozen=True)
class JsonNode:
    """A value, under its name where it has one."""

    kind: Kind
    text: str
    """The value; of an object or array, how many entries it has."""
    name: str | None = None
    children: tuple[JsonNode, ...] = ()
    is_open: bool = False


def folded(data: bytes) -> JsonNode | None:
    """The tree of a JSON document; None if it is not JSON or nested too deeply."""
    try:
        value = json.loads(data, parse_float=Number, parse_int=Number, parse_constant=_refused)
        return _Folding().node(value, None, 0)
    except (ValueError, RecursionError):
        return None


def _refused(name: str) -> None:
    raise ValueError(f"{name} is not valid JSON")


class _Folding:
    """Counts what has been shown."""

    def __init__(self) -> None:
        self._left = MOST_NODES

    def node(self, value: Any, name: str | None, depth: int) -> JsonNode:
        self._left -= 1
        match value:
            case dict() | list():
                return self._branch(value, name, depth)
            case Number():
                return JsonNode("number", str(value), name)
            case str():
                return JsonNode("string", _cut(json.dumps(value, ensure_ascii=False)), name)
            case _:
                return JsonNode("literal", json.dumps(value), name)

    def _branch(self, value: dict[str, Any] | list[Any], name: str | None, depth: int) -> JsonNode:
        is_object = isinstance(value, dict)
        entries = iter(value.items()) if isinstance(value, dict) else iter((None, one) for one in value)
        children = tuple(self._children(entries, len(value), depth))
        is_open = depth == 0 or (depth < OPEN_DEPTH and len(value) <= OPEN_NODES)
        return JsonNode("object" if is_object else "array", _entries(len(value)), name, children, is_open)

    def _children(self, entries: Iterator[tuple[str | None, Any]], count: int, depth: int) -> Iterator[JsonNode]:
        for number, (name, value) in enumerate(entries):
            if self._left <= 0:
                yield JsonNode("rest", f"{count - number:,} more")
                return
            yield self.node(value, name, depth + 1)


def _entries(count: int) -> str:
    return "1 entry" if count == 1 else f"{count:,} entries"


def _cut(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}… ({len(text):,} characters)"


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


DATA_SHOWN = 120
BINARY = ("application/octet-stream", "application/x-protobuf", "application/protobuf")


def clock(moment: datetime) -> str:
    """A moment with milliseconds, UTC."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def size(count: int) -> str:
    """So many bytes."""
    if count < 2048:
        return f"{count} byte{'' if count == 1 else 's'}"
    return f"{count / 1024:.1f} KiB" if count < 2 * 1024 * 1024 else f"{count / 1024 / 1024:.1f} MiB"


def beginning(data: bytes | None, content_type: str) -> str:
    """The beginning of the data, in one line."""
    if data is None:
        return ""
    media = media_type.parse(content_type)
    part = data[: DATA_SHOWN * 4]
    try:
        text = part.decode()
    except UnicodeDecodeError as error:
        cut = len(data) > len(part) and error.start > len(part) - 4
        text = part[: error.start].decode() if cut else ""
        if not cut:
            return f"{size(len(data))} of {content_type or 'data'}"
    if media is not None and media.essence in BINARY:
        return f"{size(len(data))} of {content_type}"
    line = " ".join(text.split())
    return line if len(line) <= DATA_SHOWN and len(part) == len(data) else f"{line[:DATA_SHOWN]}… ({size(len(data))})"
