"""The environment of a container, from its Pod: values, references to the Pod's own fields, and `$(NAME)` in values.

Pure: the ConfigMaps and Secrets that it refers to are arguments.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Literal

Kind = Literal["configmap", "secret"]
Entries = Mapping[tuple[Kind, str], Mapping[str, str] | None]
"""Content of ConfigMaps and Secrets by kind and name; None for one that does not exist."""

_KEY_REFS: tuple[tuple[str, Kind], ...] = (("configMapKeyRef", "configmap"), ("secretKeyRef", "secret"))
_FROM_REFS: tuple[tuple[str, Kind], ...] = (("configMapRef", "configmap"), ("secretRef", "secret"))

_SUBSCRIPT = re.compile(r"^metadata\.(labels|annotations)\['([^']+)'\]$")
_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")

# Limited digits and exponents: formatting a number with an exponent of a million takes minutes.
_QUANTITY = re.compile(r"([+-]?(?:\d{1,30}\.?\d{0,30}|\.\d{1,30})(?:[eE][+-]?\d{1,2})?)([KMGTPE]i|[numkMGTPE]|)")
_UNITS = {
    "": Decimal(1),
    **{unit: Decimal(1000) ** power for power, unit in enumerate(("k", "M", "G", "T", "P", "E"), 1)},
    **{unit: Decimal(1024) ** power for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)},
    **{unit: Decimal(1000) ** -power for power, unit in enumerate(("m", "u", "n"), 1)},
}


LONGEST, MOST = 1024 * 1024, 8 * 1024 * 1024
"""Longest expanded text, and limit for all variables of a container, in characters. Linux allows less."""


class ConfigError(ValueError):
    """The container cannot be started as the Pod describes it; kubectl shows it as CreateContainerConfigError."""


def environment(
    pod: Mapping[str, Any], container: Mapping[str, Any], found: Entries, base: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The container's environment: `base`, then `envFrom`, then `env`; later entries override earlier ones."""
    resolved = dict(base or {})
    for source in container.get("envFrom") or ():
        resolved |= _all_entries(source, found)
    length = 0
    for entry in container.get("env") or ():
        source = entry.get("valueFrom")
        value: str | None = expand(entry.get("value") or "", resolved)
        if source is not None:
            value = _from_source(pod, container, source, found)
        if value is not None:
            resolved[entry["name"]] = value
            length += len(value)
        if length > MOST:
            raise ConfigError(f"the variables have more than {MOST} characters after expansion")
    return resolved


def references(container: Mapping[str, Any]) -> list[tuple[Kind, str]]:
    """The ConfigMaps and Secrets that the environment refers to."""
    named: list[tuple[Kind, str]] = []
    for entry in container.get("env") or ():
        source = entry.get("valueFrom") or {}
        named += [(kind, source[field]["name"]) for field, kind in _KEY_REFS if field in source]
    for source in container.get("envFrom") or ():
        named += [(kind, source[field]["name"]) for field, kind in _FROM_REFS if source.get(field)]
    return named


def _all_entries(source: Mapping[str, Any], found: Entries) -> dict[str, str]:
    for field, kind in _FROM_REFS:
        if source.get(field):
            ref = source[field]
            entries = found[kind, ref["name"]]
            if entries is None and not ref.get("optional"):
                raise ConfigError(f'{kind} "{ref["name"]}" not found')
            return {f"{source.get('prefix') or ''}{key}": value for key, value in (entries or {}).items()}
    return {}


def _from_source(
    pod: Mapping[str, Any], container: Mapping[str, Any], source: Mapping[str, Any], found: Entries
) -> str | None:
    if "fieldRef" in source:
        return field_value(pod, source["fieldRef"]["fieldPath"])
    if "resourceFieldRef" in source:
        return resource_value(pod, container, source["resourceFieldRef"])
    for field, kind in _KEY_REFS:
        if field in source:
            ref = source[field]
            entries = found[kind, ref["name"]]
            if entries is None and not ref.get("optional"):
                raise ConfigError(f'{kind} "{ref["name"]}" not found')
            value = (entries or {}).get(ref["key"])
            if value is None and not ref.get("optional"):
                raise ConfigError(f'couldn\'t find key {ref["key"]} in {kind} "{ref["name"]}"')
            return value
    raise ConfigError(f"unsupported valueFrom: {', '.join(source) or 'it is empty'}")


def resource_value(pod: Mapping[str, Any], container: Mapping[str, Any], ref: Mapping[str, Any]) -> str:
    """A resource request or limit divided by the divisor, rounded up; 0 if there is none. They are not enforced."""
    wanted = ref.get("containerName") or container["name"]
    named = next((one for one in (pod.get("spec") or {}).get("containers") or () if one["name"] == wanted), container)
    part, _, name = str(ref["resource"]).partition(".")
    amount = ((named.get("resources") or {}).get(part) or {}).get(name)
    divisor = quantity(ref.get("divisor") or "1") or Decimal(1)
    return str(math.ceil(quantity(amount or "0") / divisor))


def quantity(text: str | float) -> Decimal:
    """A number as Kubernetes writes it: `500m`, `64Mi`, `1e3`."""
    found = _QUANTITY.fullmatch(str(text).strip())
    if not found:
        raise ConfigError(f'"{text}" is not a quantity such as 500m or 64Mi')
    return Decimal(found[1]) * _UNITS[found[2]]


def field_value(pod: Mapping[str, Any], path: str) -> str:
    """The value of the downward API for a field path. Raises ConfigError."""
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


def expand(value: str, known: Mapping[str, str]) -> str:
    """Replaces `$(NAME)` by the value of an earlier variable and `$$` by a dollar; unknown names are kept.

    Raises ConfigError if the result is too long: each variable could be twice as long as the one before.
    """
    length = len(value)

    def replacement(match: re.Match[str]) -> str:
        nonlocal length
        text = "$" if match[0] == "$$" else known.get(match[1], match[0])
        length += len(text)
        if length > LONGEST:
            raise ConfigError(f"a variable or argument has more than {LONGEST} characters after expansion")
        return text

    return _REFERENCE.sub(replacement, value)
