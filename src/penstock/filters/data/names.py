"""The names of facts, and the paths into data that they are made of."""

from __future__ import annotations

import re
from collections.abc import Iterable

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
