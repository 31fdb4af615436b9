"""Holding the deliveries of a Trigger or Subscription, and letting them go on."""

from __future__ import annotations

from penstock.operations.cluster_api import ClusterApi, Obj, Resource
from penstock.resources.delivery.annotations import PAUSED


def is_paused(route: Obj) -> bool:
    """Whether its deliveries are held."""
    return (route["metadata"].get("annotations") or {}).get(PAUSED) == "true"


def set_paused(api: ClusterApi, resource: Resource, route: Obj, paused: bool) -> Obj:
    """Holds the deliveries of a route, or lets them go on. Raises Problem."""
    metadata = route["metadata"]
    return api.annotate(resource, metadata["namespace"], metadata["name"], {PAUSED: "true" if paused else None})
