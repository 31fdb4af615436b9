"""What is wrong with an object, field by field, in Knative's words.

A check returns a list of `FieldError`; the caller puts its own field in front with `within`. Clients and conformance
suites compare the rendered text, so wording, order and merging follow Knative's.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class FieldError:
    """One complaint about one or more fields."""

    message: str
    paths: tuple[str, ...] = ()
    details: str = ""


FieldErrors = list[FieldError]


def missing(*paths: str, details: str = "") -> FieldError:
    """A field that has to be there."""
    return FieldError("missing field(s)", paths, details)


def disallowed(*paths: str, details: str = "") -> FieldError:
    """A field that must not be set."""
    return FieldError("must not set the field(s)", paths, details)


def invalid(value: object, path: str, details: str = "") -> FieldError:
    """A field with a value it cannot have."""
    return FieldError(f"invalid value: {_plain(value)}", (path,), details)


def invalid_key(key: str, path: str, details: str = "") -> FieldError:
    """A map with a key it cannot have."""
    return FieldError(f'invalid key name "{key}"', (path,), details)


def within(prefix: str, errors: Iterable[FieldError]) -> FieldErrors:
    """The same errors, seen from one level up. An index or key such as `[0]` attaches without a dot."""
    return [replace(error, paths=tuple(_join(prefix, path) for path in error.paths)) for error in errors]


def render(errors: Iterable[FieldError]) -> str:
    """The text of all errors: equal ones merged, sorted by message, paths sorted."""
    merged: dict[tuple[str, str], set[str]] = {}
    for error in errors:
        merged.setdefault((error.message, error.details), set()).update(error.paths)
    return "\n".join(
        f"{message}: {', '.join(sorted(paths))}" + (f"\n{details}" if details else "")
        for (message, details), paths in sorted(merged.items())
    )


def _join(prefix: str, path: str) -> str:
    if not prefix or not path:
        return prefix or path
    return f"{prefix}{path}" if path.startswith("[") else f"{prefix}.{path}"


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


# How a field that must not change did change, printed as Knative prints it. {v1.SubscriptionSpec}.Channel.Name: -:
# "a" +: "b"

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
