"""The Subscription controller: resolves addresses and writes its entry to the channel, whose status says when it is
ready."""

from __future__ import annotations

from penstock.controllers.reconciler import ReconcilerContext
from penstock.controllers.reconcilers.access import identity_of
from penstock.controllers.reconcilers.channel import Subscribers, write_subscribers
from penstock.controllers.reconcilers.destinations import resolve_optional
from penstock.controllers.routes.past import observe_past
from penstock.controllers.routes.route_records import used_secrets
from penstock.kube.kinds import CHANNEL, IN_MEMORY_CHANNEL, SUBSCRIPTION, Key, Kind, Obj
from penstock.resources.conditions import find, is_true
from penstock.resources.delivery import RouteOptions, effective
from penstock.resources.destinations import ResolvedAddress, Unresolved
from penstock.resources.subscription import (
    ADDED_TO_CHANNEL,
    Subscription,
    SubscriptionObservation,
    status_of,
    subscriber_spec,
)


class SubscriptionReconciler:
    """Subscriptions to channels of any kind."""

    kind = SUBSCRIPTION

    def __init__(self, context: ReconcilerContext, subscribers: Subscribers) -> None:
        self._context, self._subscribers = context, subscribers
        self._known: dict[Key, Obj] = {}

    async def reconcile(self, key: Key, obj: Obj | None) -> None:
        """See `Reconciler`."""
        if obj is None:
            self._record_removal(self._known.pop(key, None))
            return
        self._known[key] = obj
        context, me = self._context, (SUBSCRIPTION.kind, key)
        subscription = Subscription.read(obj)
        lookup = context.tracker.lookup(me)
        channel = lookup(subscription.channel)
        inherited = None if isinstance(channel, Unresolved) else (channel.get("spec") or {}).get("delivery")
        delivery = effective(subscription.delivery, inherited)
        options = RouteOptions.read(obj)
        subscriber = resolve_optional(subscription.subscriber, key.namespace, lookup)
        reply = resolve_optional(subscription.reply, key.namespace, lookup)
        first = subscriber or reply
        url = first.url if isinstance(first, ResolvedAddress) else None
        seen = SubscriptionObservation(
            channel=None if isinstance(channel, Unresolved) else channel,
            channel_failure=channel.message if isinstance(channel, Unresolved) else "",
            subscriber=subscriber,
            reply=reply,
            dead_letter=resolve_optional(delivery.get("deadLetterSink"), key.namespace, lookup),
            losses=context.dataplane.losses(subscription.identity.uid),
            delivery=context.dataplane.delivery(subscription.identity.uid),
            paused=options.paused,
            identity=await identity_of(context, me, SUBSCRIPTION, obj),
            past=observe_past(context.publisher, context.dataplane, subscription.identity.uid),
            secrets=used_secrets(context.tracker, me, key.namespace, options, url),
        )
        self._subscribers.put(key, subscriber_spec(obj, seen, delivery))
        kind = Kind(subscription.channel.api_version, subscription.channel.kind)
        if seen.channel is not None and kind not in (CHANNEL, IN_MEMORY_CHANNEL):
            await self._enter_foreign_channel(kind, dict(seen.channel))
        status = status_of(obj, seen, context.now())
        await context.write_status(SUBSCRIPTION, obj, status)
        self._record_addition(obj, status, subscription.channel.name)

    async def _enter_foreign_channel(self, kind: Kind, channel: Obj) -> None:
        """Writes the entries of a channel of another kind, which has a controller of its own."""
        key = Key(channel["metadata"]["namespace"], channel["metadata"]["name"])
        held = (channel.get("spec") or {}).get("subscribers") or []
        await write_subscribers(self._context, kind, channel, self._subscribers.of(kind, key, held))

    def _record_addition(self, obj: Obj, status: Obj, channel: str) -> None:
        added = find(status["conditions"], ADDED_TO_CHANNEL) or {}
        if added.get("status") == "True" and not is_true(obj, ADDED_TO_CHANNEL):
            message = f'Subscription was synchronized to channel "{channel}"'
            self._context.recorder.normal(obj, "SubscriberSync", message)

    def _record_removal(self, obj: Obj | None) -> None:
        if obj is not None:
            message = f'Subscription was removed from channel "{Subscription.read(obj).channel.name}"'
            self._context.recorder.normal(obj, "SubscriberRemoved", message)
