"""JSON as a tree that can be folded, with a limit on how much of it is shown. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

MOST_NODES = 1500
MOST_CHARACTERS = 2000
"""Of one string."""
OPEN_NODES = 40
"""What has no more entries than this, and is not deep, is open from the start."""
OPEN_DEPTH = 3

Kind = Literal["object", "array", "string", "number", "literal", "rest"]


class Number(str):
    """A number as it is written: 1.0 and 1e400 are to be seen as they came."""

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
    """The tree of a JSON document; None where it is none, or is nested too deeply to be looked at as one."""
    try:
        value = json.loads(data, parse_float=Number, parse_int=Number, parse_constant=_refused)
        return _Folding().node(value, None, 0)
    except (ValueError, RecursionError):
        return None


def _refused(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


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
