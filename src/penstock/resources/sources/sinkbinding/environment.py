"""What a SinkBinding does to a Pod template: containers find the sink in `K_SINK`, and what to set on events in
`K_CE_OVERRIDES`."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

from penstock.resources.admission import Obj
from penstock.resources.resolution import Address

NAMES = frozenset({"K_SINK", "K_CE_OVERRIDES", "K_CA_CERTS"})

Environment = list[dict[str, str]]


def environment_of(sink: Address, overrides: dict[str, Any] | None) -> Environment:
    """The variables that every container gets."""
    text = json.dumps(overrides, sort_keys=True, separators=(",", ":"), ensure_ascii=False) if overrides else ""
    certificates = [{"name": "K_CA_CERTS", "value": sink.ca_certs}] if sink.ca_certs else []
    return [{"name": "K_SINK", "value": sink.url}, *certificates, {"name": "K_CE_OVERRIDES", "value": text}]


def bound(obj: Obj, environment: Environment) -> Obj:
    """The object with these variables in its containers, in place of those it has; the same object if it has them."""
    changed = copy.deepcopy(obj)
    for container in _containers(changed):
        others = [one for one in container.get("env") or [] if one.get("name") not in NAMES]
        if others or environment:
            container["env"] = [*others, *copy.deepcopy(environment)]
        else:
            container.pop("env", None)
    return obj if changed == obj else changed


def unbound(obj: Obj) -> Obj:
    """The object without the variables; the same object if it has none."""
    held = [one.get("name") for container in _containers(obj) for one in container.get("env") or []]
    return bound(obj, []) if NAMES.intersection(held) else obj


def _containers(obj: Obj) -> Iterator[Obj]:
    pod = ((obj.get("spec") or {}).get("template") or {}).get("spec") or {}
    for name in ("initContainers", "containers"):
        yield from pod.get(name) or []
