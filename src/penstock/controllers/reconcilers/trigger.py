"""The Trigger controller: resolves subscriber and dead letter sink and claims the route.

A published route stays as it is while its subscriber cannot be resolved: its events are still routed and retried, so
none is lost while a Service is replaced. Without its Broker the route is withdrawn.
"""

from __future__ import annotations

from typing import Any

from penstock.contract.routes import Route, key_of, past_uid
from penstock.controllers.reconciler import ReconcilerContext
from penstock.controllers.reconcilers.access import identity_of
from penstock.controllers.reconcilers.destinations import resolve, resolve_optional
from penstock.controllers.routes.past import observe_past, with_past
from penstock.controllers.routes.route_records import trigger_route, used_secrets
from penstock.controllers.tracker import Observer
from penstock.kube.kinds import BROKER, TRIGGER, Key, Kind, Obj
from penstock.resources.broker import Broker, is_unattended
from penstock.resources.conditions import ConditionFinding, is_true
from penstock.resources.delivery import effective
from penstock.resources.destinations import KReference, Resolution, ResolvedAddress, Unresolved
from penstock.resources.secrets import UsedSecrets
from penstock.resources.trigger import (
    SUBSCRIPTION_READY,
    Trigger,
    TriggerObservation,
    dependency_finding,
    dependency_reference,
    missing_dependency,
    no_dependency,
    status_of,
    unreadable_dependency,
)


class TriggerReconciler:
    """Triggers of Brokers that are served here; those of a Broker that is not served get a status that says so."""

    kind = TRIGGER

    def __init__(self, context: ReconcilerContext) -> None:
        self._context = context

    async def reconcile(self, key: Key, obj: Obj | None) -> None:
        """See `Reconciler`."""
        context, me = self._context, (TRIGGER.kind, key)
        if obj is None:
            context.publisher.claim(me, [])
            return
        trigger = Trigger.read(obj)
        broker = context.tracker.look(me, BROKER, Key(trigger.broker_namespace, trigger.broker))
        if broker is not None and broker["metadata"].get("deletionTimestamp"):
            broker = None
        served = broker is None or Broker.read(broker).broker_class in context.settings.broker_classes
        if broker is not None and not served:
            context.publisher.claim(me, [])
            if not (context.embedded and is_unattended(broker)):
                return
        lookup = context.tracker.lookup(me)
        delivery = effective(trigger.delivery, None if broker is None else Broker.read(broker).delivery)
        subscriber = resolve(trigger.subscriber, key.namespace, lookup)
        dead_letter = resolve_optional(delivery.get("deadLetterSink"), key.namespace, lookup)
        identity = await identity_of(context, me, TRIGGER, obj)
        url = subscriber.url if isinstance(subscriber, ResolvedAddress) else None
        secrets = used_secrets(context.tracker, me, key.namespace, trigger.options, url)
        route = None
        if served:
            route = self._route(
                trigger, broker, subscriber, delivery, dead_letter, account=identity.account, secrets=secrets
            )
            claimed = (
                self._kept(trigger, broker)
                if route is None
                else with_past(context.publisher, obj, route, in_table=context.settings.history)
            )
            uids = (trigger.identity.uid, past_uid(trigger.identity.uid))
            context.publisher.claim(me, claimed, expected=[] if broker is None else [f"route/{uid}" for uid in uids])
        before = (
            is_true(obj, SUBSCRIPTION_READY)
            and (obj.get("status") or {}).get("observedGeneration") == trigger.identity.generation
        )
        seen = TriggerObservation(
            broker_name=trigger.broker,
            broker=broker,
            subscriber=subscriber,
            dead_letter=dead_letter,
            dependency=self._dependency(me, trigger),
            taken=route is not None and context.dataplane.has_taken(key_of(route), before=before),
            left_out=context.publisher.left_out(f"route/{trigger.identity.uid}"),
            refused=context.dataplane.refused(trigger.identity.uid),
            waiting=context.dataplane.waiting,
            losses=context.dataplane.losses(trigger.identity.uid),
            delivery=context.dataplane.delivery(trigger.identity.uid),
            paused=trigger.options.paused,
            identity=identity,
            past=observe_past(context.publisher, context.dataplane, trigger.identity.uid),
            secrets=secrets,
        )
        await context.write_status(TRIGGER, obj, status_of(obj, seen, context.now()))

    def _route(
        self,
        trigger: Trigger,
        broker: Obj | None,
        subscriber: ResolvedAddress | Unresolved,
        delivery: dict[str, Any],
        dead_letter: Resolution,
        *,
        account: str,
        secrets: UsedSecrets,
    ) -> Route | None:
        if broker is None or isinstance(subscriber, Unresolved) or isinstance(dead_letter, Unresolved):
            return None
        target = broker["metadata"]["uid"]
        return trigger_route(trigger, target, subscriber, delivery, dead_letter, account=account, secrets=secrets)

    def _kept(self, trigger: Trigger, broker: Obj | None) -> list[Route]:
        uid = trigger.identity.uid
        held = [self._context.publisher.held(f"route/{one}") for one in (uid, past_uid(uid))]
        if broker is None:
            return []
        return [one for one in held if isinstance(one, Route) and one.target == broker["metadata"]["uid"]]

    def _dependency(self, me: Observer, trigger: Trigger) -> ConditionFinding:
        if trigger.dependency is None:
            return no_dependency()
        try:
            reference = KReference.read(dependency_reference(trigger.dependency), trigger.identity.namespace)
        except ValueError as error:
            return unreadable_dependency(str(error))
        kind = Kind(reference.api_version, reference.kind)
        found = self._context.tracker.look(me, kind, Key(reference.namespace, reference.name))
        if found is None:
            return missing_dependency(self._context.tracker.why_missing(kind, reference.name))
        return dependency_finding(found)
