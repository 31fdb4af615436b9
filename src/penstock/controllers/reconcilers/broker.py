"""The Broker controller: an address at the ingress, and a target record so that the ingress accepts events there."""

from __future__ import annotations

from penstock.contract.routes import key_of
from penstock.controllers.reconciler import ReconcilerContext
from penstock.controllers.reconcilers.access import access_of
from penstock.controllers.reconcilers.configuration import ingress_addresses, reports_types, transport
from penstock.controllers.reconcilers.destinations import resolve_optional
from penstock.controllers.routes.route_records import broker_path, broker_target
from penstock.controllers.tracker import Observer
from penstock.kube.kinds import BROKER, CONFIG_MAP, Key, Kind, Obj
from penstock.resources.api_keys import with_keys
from penstock.resources.broker import (
    INGRESS_READY,
    Broker,
    BrokerObservation,
    is_unattended,
    status_of,
    status_of_unserved,
)
from penstock.resources.conditions import is_true
from penstock.resources.destinations import KReference


class BrokerReconciler:
    """Brokers of the classes that are served here; others get a status that says so, unless another controller serves
    them."""

    kind = BROKER

    def __init__(self, context: ReconcilerContext) -> None:
        self._context = context

    async def reconcile(self, key: Key, obj: Obj | None) -> None:
        """See `Reconciler`."""
        context, me = self._context, (BROKER.kind, key)
        broker = None if obj is None else Broker.read(obj)
        if obj is None or broker is None:
            context.publisher.claim(me, [])
            return
        if broker.broker_class not in context.settings.broker_classes:
            context.publisher.claim(me, [])
            await self._refuse(obj, broker.broker_class)
            return
        access = access_of(context, me, BROKER, obj)
        target = broker_target(
            broker.identity, tells_types=reports_types(context, me), transport=transport(context, me), access=access
        )
        target = with_keys(target, obj)
        context.publisher.claim(me, [target])
        sink = (broker.delivery or {}).get("deadLetterSink")
        seen = BrokerObservation(
            addresses=ingress_addresses(context, me, broker_path(broker.identity), access.audience),
            ingress_takes_it=context.dataplane.ingress_has_taken(key_of(target), before=is_true(obj, INGRESS_READY)),
            dead_letter=resolve_optional(sink, key.namespace, context.tracker.lookup(me)),
            config_problem=self._config_problem(me, broker),
            access=access,
        )
        await context.write_status(BROKER, obj, status_of(obj, seen, context.now()))

    async def _refuse(self, obj: Obj, broker_class: str) -> None:
        context = self._context
        # In an existing cluster, another controller may be about to serve the class.
        if context.embedded and is_unattended(obj):
            served = context.settings.broker_classes
            await context.write_status(BROKER, obj, status_of_unserved(obj, broker_class, served, context.now()))

    def _config_problem(self, me: Observer, broker: Broker) -> str | None:
        """Why the Broker's ConfigMap cannot be found. Its content is for other implementations of Brokers."""
        if not broker.config:
            return None
        reference = KReference.read(broker.config, broker.identity.namespace)
        if Kind(reference.api_version, reference.kind) != CONFIG_MAP:
            return "Broker.Spec.Config configuration not supported, only [kind: ConfigMap, apiVersion: v1]"
        if self._context.tracker.look(me, CONFIG_MAP, Key(reference.namespace, reference.name)) is None:
            return f'configmap "{reference.name}" not found'
        return None
