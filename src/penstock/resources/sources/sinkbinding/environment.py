"""What a SinkBinding does to a Pod template: containers find the sink in `K_SINK`, what to set on events in
`K_CE_OVERRIDES`, the trust bundles of their namespace in a folder, and in another the token to send with."""

from __future__ import annotations

import copy
import json
from collections.abc import Collection, Iterator
from typing import Any

from penstock.resources.admission import Obj
from penstock.resources.destinations.resolution import ResolvedAddress

NAMES = frozenset({"K_SINK", "K_CE_OVERRIDES", "K_CA_CERTS"})
VOLUME_PREFIX = "kne-bundle-"
VOLUME = f"{VOLUME_PREFIX}volume"
MOUNT_PATH = "/knative-custom-certs"
TOKEN_VOLUME, TOKEN_PATH = "oidc-token", "/oidc"

_READABLE = 0o644
"""What Kubernetes fills in; a template that differs from the stored one would be written for ever."""

Environment = list[dict[str, str]]


def environment_of(sink: ResolvedAddress, overrides: dict[str, Any] | None) -> Environment:
    """The variables that every container gets."""
    text = json.dumps(overrides, sort_keys=True, separators=(",", ":"), ensure_ascii=False) if overrides else ""
    certificates = [{"name": "K_CA_CERTS", "value": sink.ca_certs}] if sink.ca_certs else []
    return [{"name": "K_SINK", "value": sink.url}, *certificates, {"name": "K_CE_OVERRIDES", "value": text}]


def bound(obj: Obj, environment: Environment, bundles: Collection[str] = (), token: str = "") -> Obj:
    """The object with these variables in its containers, and with the ConfigMaps and the Secret of these names as
    volumes of each, in place of what it has of both; the same object if it has them."""
    changed = copy.deepcopy(obj)
    shown: list[tuple[str, str, list[Obj]]] = [
        (VOLUME, MOUNT_PATH, [{"configMap": {"name": name}} for name in sorted(bundles)]),
        (TOKEN_VOLUME, TOKEN_PATH, [{"secret": {"name": token}}] if token else []),
    ]
    shown = [one for one in shown if one[2]]
    volumes = [{"name": name, "projected": {"sources": some, "defaultMode": _READABLE}} for name, _, some in shown]
    mounts = [{"name": name, "readOnly": True, "mountPath": path} for name, path, _ in shown]
    for container in _containers(changed):
        _replace(container, "env", environment)
        _replace(container, "volumeMounts", mounts)
    if any(True for _ in _containers(changed)):
        _replace(_pod(changed), "volumes", volumes)
    return obj if changed == obj else changed


def unbound(obj: Obj) -> Obj:
    """The object without the variables and the volumes; the same object if it has none."""
    return bound(obj, [])


def bundles_in(obj: Obj) -> list[str]:
    """The names of the ConfigMaps that the object mounts as trust bundles."""
    return [source["configMap"]["name"] for source in _sources(obj, VOLUME) if source.get("configMap")]


def token_in(obj: Obj) -> str:
    """The name of the Secret that the object mounts as its token; empty where it has none."""
    return next((str(one["secret"]["name"]) for one in _sources(obj, TOKEN_VOLUME) if one.get("secret")), "")


def _sources(obj: Obj, name: str) -> list[Obj]:
    volumes = [one for one in _pod(obj).get("volumes") or [] if one.get("name") == name]
    return [source for one in volumes for source in (one.get("projected") or {}).get("sources") or []]


def _replace(holder: Obj, field: str, ours: list[Any]) -> None:
    """Puts `ours` behind what is somebody else's, in place of what was ours before."""
    before = holder.get(field) or []
    after = [*(one for one in before if not _is_ours(field, str(one.get("name")))), *copy.deepcopy(ours)]
    if after:
        holder[field] = after
    elif before:
        del holder[field]


def _is_ours(field: str, name: str) -> bool:
    return name in NAMES if field == "env" else name == TOKEN_VOLUME or name.startswith(VOLUME_PREFIX)


def _containers(obj: Obj) -> Iterator[Obj]:
    for name in ("initContainers", "containers"):
        yield from _pod(obj).get(name) or []


def _pod(obj: Obj) -> Obj:
    """The Pod's spec in the template; an empty one where there is none."""
    pod: Obj = ((obj.get("spec") or {}).get("template") or {}).get("spec") or {}
    return pod
