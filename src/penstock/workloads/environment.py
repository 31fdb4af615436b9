"""The environment of a container, from its Pod: values, references to the Pod's own fields, and `$(NAME)` in values.

References to ConfigMaps and Secrets are looked up by a function that is given, so that this stays pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

Lookup = Callable[[str, str, str], str | None]
"""(`configMapKeyRef` or `secretKeyRef`, object's name, key) -> value, or None where there is none."""

_SUBSCRIPT = re.compile(r"^metadata\.(labels|annotations)\['([^']+)'\]$")
_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")


class ConfigError(ValueError):
    """The container cannot be started as the Pod describes it; kubectl shows it as CreateContainerConfigError."""


def environment(pod: Mapping[str, Any], container: Mapping[str, Any], lookup: Lookup) -> dict[str, str]:
    """The container's environment, entries later in the list overriding earlier ones."""
    resolved: dict[str, str] = {}
    for entry in container.get("env") or ():
        name = entry["name"]
        source = entry.get("valueFrom")
        if source is None:
            resolved[name] = _expand(entry.get("value") or "", resolved)
            continue
        value = _from_source(pod, source, lookup)
        if value is not None:
            resolved[name] = value
    return resolved


def references(container: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The ConfigMaps and Secrets that the environment refers to: (kind of reference, name)."""
    found = []
    for entry in container.get("env") or ():
        source = entry.get("valueFrom") or {}
        found += [(kind, source[kind]["name"]) for kind in ("configMapKeyRef", "secretKeyRef") if kind in source]
    return found


def _from_source(pod: Mapping[str, Any], source: Mapping[str, Any], lookup: Lookup) -> str | None:
    if "fieldRef" in source:
        return _field(pod, source["fieldRef"]["fieldPath"])
    for kind, noun in (("configMapKeyRef", "configmap"), ("secretKeyRef", "secret")):
        if kind in source:
            ref = source[kind]
            value = lookup(kind, ref["name"], ref["key"])
            if value is None and not ref.get("optional"):
                raise ConfigError(f'couldn\'t find key {ref["key"]} in {noun} "{ref["name"]}"')
            return value
    raise ConfigError(f"no environment can be made from {', '.join(source) or 'an empty valueFrom'}")


def _field(pod: Mapping[str, Any], path: str) -> str:
    metadata, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    subscript = _SUBSCRIPT.match(path)
    if subscript:
        return str((metadata.get(subscript[1]) or {}).get(subscript[2], ""))
    values = {
        "metadata.name": metadata.get("name"),
        "metadata.namespace": metadata.get("namespace"),
        "metadata.uid": metadata.get("uid"),
        "spec.nodeName": spec.get("nodeName"),
        "spec.serviceAccountName": spec.get("serviceAccountName") or "default",
        "status.hostIP": status.get("hostIP"),
        "status.podIP": status.get("podIP"),
        "status.podIPs": status.get("podIP"),
    }
    if path not in values:
        raise ConfigError(f'the Pod has no field "{path}" that an environment variable may refer to')
    return str(values[path] or "")


def _expand(value: str, known: Mapping[str, str]) -> str:
    """`$(NAME)` becomes the value of an earlier variable, `$$` a dollar; unknown names stay as they are written."""

    def replacement(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        return known.get(match[1], match[0])

    return _REFERENCE.sub(replacement, value)
