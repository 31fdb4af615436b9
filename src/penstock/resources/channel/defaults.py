"""Defaults of a Channel: which kind of channel does the work, from the ConfigMap `default-ch-webhook`."""

from __future__ import annotations

from typing import Any

import yaml

from penstock.resources.admission import AdmissionContext, Obj, annotations_of, namespace_of
from penstock.resources.channel.model import SUBSCRIBABLE_ANNOTATION, SUBSCRIBABLE_VERSION
from penstock.resources.delivery.options import fill_delivery

CONFIG_MAP = "default-ch-webhook"
KEY = "default-ch-config"
TEMPLATE = {"apiVersion": "messaging.knative.dev/v1", "kind": "InMemoryChannel"}


def fill(obj: Obj, ctx: AdmissionContext) -> None:
    """Fills in what was left out."""
    mark_subscribable(obj)
    spec = obj["spec"]
    if spec.get("channelTemplate") is None:
        spec["channelTemplate"] = default_template(ctx, namespace_of(obj, ctx))
    fill_delivery(spec.get("delivery"), namespace_of(obj, ctx))


def mark_subscribable(obj: Obj) -> None:
    """Notes which version of the subscribable contract the object follows."""
    annotations = annotations_of(obj)
    annotations.setdefault(SUBSCRIBABLE_ANNOTATION, SUBSCRIBABLE_VERSION)
    obj.setdefault("metadata", {})["annotations"] = annotations


def default_template(ctx: AdmissionContext, namespace: str) -> dict[str, Any]:
    """Which kind of channel does the work in this namespace where nobody says."""
    try:
        configured = yaml.safe_load(ctx.configmaps.get(CONFIG_MAP, {}).get(KEY, ""))
    except yaml.YAMLError:
        configured = None
    configured = configured if isinstance(configured, dict) else {}
    chosen = (configured.get("namespaceDefaults") or {}).get(namespace) or configured.get("clusterDefault") or TEMPLATE
    return {name: chosen[name] for name in ("apiVersion", "kind", "spec") if chosen.get(name)}
