"""LIKE patterns: `%` is any text, `_` any one character, and a backslash before either makes it itself.

A pattern becomes one regular expression that Python and Java read alike. Every run between two `%` is an atomic group
that takes its first occurrence: if a match exists, that choice leads to one, so nothing is ever tried twice and a
hostile pattern or value cannot make matching slow.
"""

from __future__ import annotations

import re
from functools import cache

_TOKEN = re.compile(r"\\[%_]|.", re.DOTALL)
_SPECIAL = frozenset("\\^$.|?*+()[]{}")


def runs(pattern: str) -> list[list[str | None]]:
    """The pattern cut at each `%`; a run is a list of characters, with None for any one."""
    cut: list[list[str | None]] = [[]]
    for token in _TOKEN.findall(pattern):
        match token:
            case "%":
                cut.append([])
            case "_":
                cut[-1].append(None)
            case _:
                cut[-1].append(token[-1])
    return cut


def regex(pattern: str) -> str:
    """A regular expression for whole values, to be used with a full match and with `.` matching line ends."""
    first, *others = [_run(run) for run in runs(pattern)]
    if not others:
        return first
    *middle, last = others
    return first + "".join(f"(?>.*?{run})" for run in middle if run) + f".*{last}"


def like(value: str, pattern: str) -> bool:
    """Whether the whole value matches the pattern."""
    return _compiled(pattern).fullmatch(value) is not None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(regex(pattern), re.DOTALL)


def _run(characters: list[str | None]) -> str:
    return "".join("." if each is None else f"\\{each}" if each in _SPECIAL else each for each in characters)
