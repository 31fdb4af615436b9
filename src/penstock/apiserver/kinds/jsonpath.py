"""The JSONPath of printer columns: fields, indexes, wildcards and filters that compare one field with a literal."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

Step = Callable[[Any], Iterable[Any]]

_TOKEN = re.compile(
    r"""\.?\[\?\(\s*@\.(?P<filter>[^\s=!<>]+)\s*(?P<operator>==|!=)\s*(?P<literal>"[^"]*"|'[^']*'|[^)\s]+)\s*\)\]
      | \.?\[(?P<index>-?\d+)\]
      | \.?\[(?P<quote>['"])(?P<quoted>.*?)(?P=quote)\]
      | \.?\[\*\]|\.(?P<all>\*)
      | \.?(?P<field>(?:\\.|[^.\[\]\\])+)""",
    re.VERBOSE,
)


def first(path: str, value: Any) -> Any:
    """The first value under the path, or None; a path that cannot be parsed finds nothing."""
    found: Iterable[Any] = [value]
    for step in _steps(path):
        found = [result for item in found for result in step(item)]
    return next(iter(found), None)


@lru_cache(512)
def _steps(path: str) -> tuple[Step, ...]:
    steps: list[Step] = []
    text = path.strip().removeprefix("{").removesuffix("}").removeprefix("$")
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if not found or found.end() == position:
            return (lambda _: (),)
        steps.append(_step(found))
        position = found.end()
    return tuple(steps)


def _step(found: re.Match[str]) -> Step:
    if found["filter"] is not None:
        return _filter(found["filter"], found["operator"], found["literal"])
    if found["index"] is not None:
        index = int(found["index"])
        return lambda value: [value[index]] if isinstance(value, list) and -len(value) <= index < len(value) else []
    name = found["quoted"] if found["quoted"] is not None else found["field"]
    if name is None:
        return lambda value: (
            list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
        )
    plain = re.sub(r"\\(.)", r"\1", name)
    return lambda value: [value[plain]] if isinstance(value, dict) and plain in value else []


def _filter(path: str, operator: str, literal: str) -> Step:
    wanted = literal[1:-1] if literal[:1] in "\"'" else literal

    def step(value: Any) -> list[Any]:
        items = value if isinstance(value, list) else []
        return [item for item in items if (_text(first("." + path, item)) == wanted) == (operator == "==")]

    return step


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
