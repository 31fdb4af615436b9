"""How a field that must not change did change, printed as Knative prints it.

{v1.SubscriptionSpec}.Channel.Name:
    -: "a"
    +: "b"
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from penstock.resources.field_errors import FieldError

_SPELLING = {"apiVersion": "APIVersion", "uri": "URI"}


def changed(message: str, root: str, old: object, new: object, *paths: str) -> list[FieldError]:
    """An error if `old` and `new` differ. `root` is the type that the printed paths start at."""
    details = short_diff(f"{{{root}}}", old, new)
    return [FieldError(f"{message} (-old +new)", paths, details)] if details else []


def short_diff(path: str, old: object, new: object) -> str:
    """Every leaf that differs."""
    if old == new:
        return ""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        names = sorted(set(old) | set(new))
        return "".join(short_diff(f"{path}.{_go_name(name)}", old.get(name), new.get(name)) for name in names)
    return f"{path}:\n" + "".join(
        f'\t{sign}: "{_shown(value)}"\n' for sign, value in (("-", old), ("+", new)) if value is not None
    )


def _go_name(name: str) -> str:
    return _SPELLING.get(name) or name[:1].upper() + name[1:]


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)
