"""Defaults of a Broker: its class, its configuration and its delivery options.

They come from the ConfigMap `config-br-defaults`; the most specific entry that says something wins: the class within
the namespace, the namespace, the class within the cluster, the cluster.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import yaml

from penstock.resources.admission import AdmissionContext, Obj, annotations_of, namespace_of
from penstock.resources.broker.model import CLASS_ANNOTATION
from penstock.resources.delivery.options import fill_delivery
from penstock.resources.destinations.kreference import fill_namespace

CONFIG_MAP = "config-br-defaults"
KEY = "default-br-config"

_REFERENCE = ("kind", "namespace", "name", "apiVersion")


def fill(obj: Obj, ctx: AdmissionContext) -> None:
    """Fills in what was left out."""
    namespace = namespace_of(obj, ctx)
    configured = _configured(ctx)
    annotations = annotations_of(obj)
    if not annotations.get(CLASS_ANNOTATION):
        annotations[CLASS_ANNOTATION] = _class(configured, namespace) or ctx.settings.default_broker_class
    obj.setdefault("metadata", {})["annotations"] = annotations
    spec = obj["spec"]
    for entry in _entries(configured, namespace, annotations[CLASS_ANNOTATION]):
        if not spec.get("config") and entry.get("name"):
            spec["config"] = {name: entry[name] for name in _REFERENCE if entry.get(name)}
        if spec.get("delivery") is None and entry.get("delivery"):
            spec["delivery"] = copy.deepcopy(entry["delivery"])
    fill_namespace(spec.get("config"), namespace)
    fill_delivery(spec.get("delivery"), namespace)


def _configured(ctx: AdmissionContext) -> dict[str, Any]:
    try:
        parsed = yaml.safe_load(ctx.configmaps.get(CONFIG_MAP, {}).get(KEY, ""))
    except yaml.YAMLError:
        # A ConfigMap that somebody broke must not keep every Broker from being created.
        return {}
    return parsed if isinstance(parsed, dict) else {}


def _scopes(configured: dict[str, Any], namespace: str) -> Iterator[dict[str, Any]]:
    for scope in ((configured.get("namespaceDefaults") or {}).get(namespace), configured.get("clusterDefault")):
        if isinstance(scope, dict):
            yield scope


def _class(configured: dict[str, Any], namespace: str) -> str | None:
    return next(
        (str(scope["brokerClass"]) for scope in _scopes(configured, namespace) if scope.get("brokerClass")), None
    )


def _entries(configured: dict[str, Any], namespace: str, broker_class: str) -> Iterator[dict[str, Any]]:
    for scope in _scopes(configured, namespace):
        by_class = (scope.get("brokerClasses") or {}).get(broker_class)
        if isinstance(by_class, dict):
            yield by_class
        yield scope
