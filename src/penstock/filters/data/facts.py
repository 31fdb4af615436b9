"""What an event's data says, in Python: the definition that the Spark columns are tested against."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from penstock.events.event import CloudEvent
from penstock.filters.predicate import All, AnyOf, Compared, Exact, Not, Predicate, Prefix, Present, Suffix

KIND, STRING, NUMBER = "kind:", "string:", "number:"

READABLE = KIND
"""There where the event has JSON data: the kind of what stands at the empty path."""

Path = tuple[str, ...]

_PART = re.compile(r"(?:[^.\\]|\\[.\\])+")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_SPECIAL = re.compile(r"([.\\])")


def path_of(key: str) -> Path | None:
    """The names of members that a key such as `order.country` leads through; None for an invalid key.

    A dot or a backslash that belongs to a name has a backslash before it.
    """
    parts: list[str] = []
    position = 0
    while (part := _PART.match(key, position)) is not None:
        parts.append(_ESCAPE.sub(r"\1", part[0]))
        position = part.end() + 1
        if part.end() == len(key):
            return tuple(parts)
        if key[part.end()] != ".":
            return None
    return None


def key_of(path: Path) -> str:
    """The key that leads through these names."""
    return ".".join(_SPECIAL.sub(r"\\\1", name) for name in path)


def variant_path(path: Path) -> str | None:
    """The path as Spark's VARIANT functions want it; None where they have no way to say it."""
    steps = [_step(name) for name in path]
    return None if None in steps else "".join(map(str, steps))


def _step(name: str) -> str | None:
    if "." not in name and "[" not in name:
        return f".{name}"
    for quote in "'\"":
        if quote not in name:
            return f"[{quote}{name}{quote}]"
    return None


def is_fact(name: str) -> bool:
    """Whether this is the name of a fact, not that of an attribute."""
    return ":" in name


def parts_of(fact: str) -> tuple[str, str]:
    """Which kind of fact it is, and the key of the path that it is about."""
    kind, colon, key = fact.partition(":")
    return kind + colon, key


def facts_asked(predicate: Predicate) -> frozenset[str]:
    """The names of the facts that decide about the predicate; none where it does not look at data."""
    match predicate:
        case All(children) | AnyOf(children):
            return _of_all(children)
        case Not(child):
            return facts_asked(child)
        case Exact(name) | Present(name) | Prefix(name) | Suffix(name) | Compared(name):
            return frozenset({name}) if is_fact(name) else frozenset()
        case _:
            return frozenset()


def _of_all(children: Iterable[Predicate]) -> frozenset[str]:
    return frozenset(name for child in children for name in facts_asked(child))


JSON_TYPE = r"[^/;]+/(?:[^;]*\+)?json[ \t]*(?:;.*)?"
"""A media type that says JSON, in any case of letters; its parameters do not count."""

LONGEST_NUMBER = 1000
"""Digits of a number; what has more is not read."""

_JSON_TYPE = re.compile(JSON_TYPE, re.IGNORECASE | re.DOTALL)
_MISSING = object()


class NoJson(ValueError):
    """The event has no JSON data."""


def facts(event: CloudEvent, names: Iterable[str]) -> dict[str, str]:
    """Those of the named facts that there are; none where the event has no JSON data."""
    try:
        data = read(event)
    except NoJson:
        return {}
    found = {name: _fact(name, data) for name in names}
    return {name: text for name, text in found.items() if text is not None}


def read(event: CloudEvent) -> Any:
    """The event's data, numbers as floats. Raises NoJson."""
    if event.data is None or _JSON_TYPE.fullmatch(event.attributes.get("datacontenttype", "")) is None:
        raise NoJson
    try:
        data = json.loads(event.data.decode(), parse_int=_number, parse_float=_number, parse_constant=_refuse)
        if b"\\u" in event.data:
            json.dumps(data, ensure_ascii=False).encode()  # half of a surrogate pair is not text
    except (ValueError, RecursionError) as error:
        raise NoJson from error
    return data


def number_text(value: float) -> str:
    """A number in the text that it is looked up by: whole ones have digits only."""
    return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)


def _number(text: str) -> float:
    if sum(map(str.isdigit, text)) > LONGEST_NUMBER:
        raise ValueError("the number is too long")
    return float(text)


def _refuse(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


def _fact(name: str, data: Any) -> str | None:
    kind, key = parts_of(name)
    value = _at(data, path_of(key) or ())
    if value is _MISSING:
        return None
    if kind == STRING:
        return value if isinstance(value, str) else None
    if kind == NUMBER:
        return number_text(value) if isinstance(value, float) else None
    return _kind(value)


def _at(data: Any, path: Path) -> Any:
    for name in path:
        if not isinstance(data, Mapping) or name not in data:
            return _MISSING
        data = data[name]
    return data


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return "string"
        case float():
            return "number"
        case list():
            return "array"
        case _:
            return "object"
