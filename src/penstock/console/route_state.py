"""How a route, Broker or channel is, in a word and a sentence. Pure."""

from __future__ import annotations

from typing import Any

from penstock.operations.cluster_api import is_paused
from penstock.resources.conditions import find
from penstock.resources.delivery.delivering import DELIVERING
from penstock.resources.destinations.resolution import EVENTS_RETAINED, is_expiring


def state_of(obj: dict[str, Any]) -> tuple[str, str]:
    """`ready`, `paused`, `expiring`, `failing` or `not ready`, and why: what is wrong comes first."""
    conditions = (obj.get("status") or {}).get("conditions")
    ready, delivering = find(conditions, "Ready") or {}, find(conditions, DELIVERING) or {}
    if ready.get("status") != "True":
        return "not ready", str(ready.get("message") or ready.get("reason") or "pending")
    retained = find(conditions, EVENTS_RETAINED)
    if is_expiring(retained):
        return "expiring", str((retained or {}).get("message"))
    if delivering.get("status") == "False" and delivering.get("reason") != "Paused":
        return "failing", str(delivering.get("message") or delivering.get("reason") or "")
    return ("paused", "its deliveries are held") if is_paused(obj) else ("ready", "")
