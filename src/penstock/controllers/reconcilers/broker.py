"""The Broker controller: an address at the ingress, and a target record that makes the ingress answer there."""

from __future__ import annotations

from penstock.contract.routes import key_of
from penstock.controllers.api import BROKER, Key, Obj
from penstock.controllers.reconciler import ReconcilerContext
from penstock.controllers.reconcilers.configuration import tells_types
from penstock.controllers.reconcilers.destinations import resolve_optional
from penstock.controllers.routes.route_records import broker_path, broker_target
from penstock.resources.broker.model import Broker
from penstock.resources.broker.status import INGRESS_READY, BrokerObservation, status_of
from penstock.resources.conditions import find


class BrokerReconciler:
    """Brokers of the classes that are served here; others are left alone."""

    kind = BROKER

    def __init__(self, world: ReconcilerContext) -> None:
        self._world = world

    async def reconcile(self, key: Key, obj: Obj | None) -> None:
        """See `Reconciler`."""
        world, me = self._world, (BROKER.kind, key)
        broker = None if obj is None else Broker.read(obj)
        if obj is None or broker is None or broker.broker_class not in world.settings.broker_classes:
            world.publisher.claim(me, [])
            return
        target = broker_target(broker.identity, tells_types=tells_types(world, me))
        world.publisher.claim(me, [target])
        sink = (broker.delivery or {}).get("deadLetterSink")
        seen = BrokerObservation(
            url=world.settings.ingress_url + broker_path(broker.identity),
            ingress_takes_it=world.dataplane.ingress_has_taken(key_of(target), before=was_true(obj, INGRESS_READY)),
            dead_letter=resolve_optional(sink, key.namespace, world.tracker.lookup(me)),
        )
        await world.write_status(BROKER, obj, status_of(obj, seen, world.now()))


def was_true(obj: Obj, condition: str) -> bool:
    """Whether the object's status says so already."""
    return (find((obj.get("status") or {}).get("conditions"), condition) or {}).get("status") == "True"
