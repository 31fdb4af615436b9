"""What the ConfigMaps in `knative-eventing` say to the controllers."""

from __future__ import annotations

from penstock.controllers.api import CONFIG_MAP, Key
from penstock.controllers.reconciler import ReconcilerContext
from penstock.controllers.tracker import Observer
from penstock.resources import features
from penstock.resources.admission import SYSTEM_NAMESPACE


def tells_types(world: ReconcilerContext, me: Observer) -> bool:
    """Whether the target should report the types of its events; who asks hears when that changes."""
    found = world.tracker.look(me, CONFIG_MAP, Key(SYSTEM_NAMESPACE, features.CONFIG_MAP))
    return features.enabled_by("eventtype-auto-create", (found or {}).get("data") or {})
