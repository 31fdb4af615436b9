"""How a step or branch that is refused is shown: as Go prints a struct, since Knative's messages do.

Where Go prints the address of something in memory, its content is shown instead.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

_DESTINATION = ("ref", "uri", "CACerts", "audience")


def go_destination(fields: dict[str, object]) -> str:
    """A destination."""
    return go_struct(fields.get(name) for name in _DESTINATION)


def go_struct(values: Iterable[object]) -> str:
    """The values of a struct's fields, in order."""
    return "{" + " ".join(map(_go_value, values)) + "}"


def _go_value(value: object) -> str:
    if value is None:
        return "<nil>"
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
