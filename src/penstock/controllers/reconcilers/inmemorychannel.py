"""The InMemoryChannel controller: a target at the ingress, and a route for each of its subscribers."""

from __future__ import annotations

from penstock.contract import routes
from penstock.contract.routes import Record, Route
from penstock.controllers.reconciler import ReconcilerContext
from penstock.controllers.reconcilers.access import access_of, account_name
from penstock.controllers.reconcilers.channel import Subscribers, write_subscribers
from penstock.controllers.reconcilers.configuration import ingress_addresses, reports_types, transport
from penstock.controllers.reconcilers.destinations import resolve_optional
from penstock.controllers.routes.past import with_past
from penstock.controllers.routes.route_records import (
    channel_host,
    channel_path,
    channel_target,
    ingress_name,
    subscription_route,
    used_secrets,
)
from penstock.controllers.tracker import Observer
from penstock.kube.kinds import CHANNEL, IN_MEMORY_CHANNEL, SUBSCRIPTION, Key, Kind, Obj, key_of
from penstock.resources.channel import Channel
from penstock.resources.conditions import is_true
from penstock.resources.delivery import RouteOptions
from penstock.resources.inmemorychannel import ENDPOINTS_READY, ChannelObservation, InMemoryChannel, status_of
from penstock.resources.metadata import ObjectIdentity


class InMemoryChannelReconciler:
    """InMemoryChannels, owned by a Channel or not."""

    kind = IN_MEMORY_CHANNEL

    def __init__(self, context: ReconcilerContext, subscribers: Subscribers) -> None:
        self._context, self._subscribers = context, subscribers

    async def reconcile(self, key: Key, obj: Obj | None) -> None:
        """See `Reconciler`."""
        context, me = self._context, (IN_MEMORY_CHANNEL.kind, key)
        if obj is None:
            context.publisher.claim(me, [])
            return
        channel = InMemoryChannel.read(obj)
        access = access_of(context, me, IN_MEMORY_CHANNEL, obj)
        target = channel_target(
            channel.identity, tells_types=reports_types(context, me), transport=transport(context, me), access=access
        )
        facade = self._facade(me, obj)
        subscriptions = self._subscriptions(me, key, facade)
        refused = {
            uid: "There is no Subscription to this channel with this name and uid."
            for entry in channel.subscribers
            if (uid := str(entry.get("uid") or "")) not in subscriptions
        }
        claimed = [
            route
            for entry in channel.subscribers
            if (subscription := subscriptions.get(str(entry.get("uid") or ""))) is not None
            for route in self._routes(me, channel, entry, subscription)
        ]
        records: list[Record] = [target, *claimed]
        if context.embedded:
            records.append(ingress_name(channel_host(channel.identity), context.settings))
        taken = context.publisher.claim(me, records)
        keys = {route.uid: routes.key_of(route) for route in claimed}
        refused |= {uid: _taken(taken[key]) for uid, key in keys.items() if key in taken}
        refused |= {uid: why for uid, key in keys.items() if (why := context.publisher.left_out(key))}
        sink = (channel.delivery or {}).get("deadLetterSink")
        ready_before = _ready_before(obj)
        seen = ChannelObservation(
            addresses=ingress_addresses(context, me, channel_path(channel.identity), access.audience),
            ingress_takes_it=context.dataplane.ingress_has_taken(
                routes.key_of(target), before=is_true(obj, ENDPOINTS_READY)
            ),
            dead_letter=resolve_optional(sink, key.namespace, context.tracker.lookup(me)),
            taken={
                route.uid: context.dataplane.has_taken(
                    keys[route.uid], before=(route.uid, route.generation) in ready_before
                )
                for route in claimed
            },
            refused=refused,
            service_owner=next((_named(owner) for name, owner in taken.items() if name.startswith("name/")), ""),
            waiting=context.dataplane.waiting,
            access=access,
        )
        await context.write_status(IN_MEMORY_CHANNEL, obj, status_of(obj, seen, context.now()))
        if facade is None:
            # The watch delivers the changed object, which is claimed then: a claim never waits for a write.
            entries = self._subscribers.of(IN_MEMORY_CHANNEL, key, channel.subscribers)
            current = context.tracker.informer(IN_MEMORY_CHANNEL).get(key)
            if current is not None:
                await write_subscribers(context, IN_MEMORY_CHANNEL, current, entries)

    def _facade(self, me: Observer, obj: Obj) -> Key | None:
        """The Channel whose backing channel this is, and that writes its subscribers; None: there is none.

        It is the Channel of the same name, if its template names this kind, no matter who created this channel. Owner
        references are ignored: users can change them, and then both reconcilers would undo each other's writes.
        """
        key = key_of(obj)
        found = self._context.tracker.look(me, CHANNEL, key)
        if found is None:
            return None
        template = Channel.read(found).template
        kind = Kind(str(template.get("apiVersion") or ""), str(template.get("kind") or ""))
        return key if kind == IN_MEMORY_CHANNEL else None

    def _subscriptions(self, me: Observer, key: Key, facade: Key | None) -> dict[str, Obj]:
        """The Subscriptions to this channel, or to the Channel that it backs, by uid."""
        keys = self._subscribers.subscriptions_to(IN_MEMORY_CHANNEL, key)
        if facade is not None:
            keys += self._subscribers.subscriptions_to(CHANNEL, facade)
        found = (self._context.tracker.look(me, SUBSCRIPTION, one) for one in keys)
        return {subscription["metadata"]["uid"]: subscription for subscription in found if subscription is not None}

    def _routes(
        self, me: Observer, channel: InMemoryChannel, entry: dict[str, object], subscription: Obj
    ) -> list[Route]:
        context, identity, options = self._context, ObjectIdentity.read(subscription), RouteOptions.read(subscription)
        url = str(entry.get("subscriberUri") or entry.get("replyUri") or "") or None
        own = subscription_route(
            entry,
            channel.identity,
            identity,
            options,
            account=account_name(context, me, SUBSCRIPTION, identity.name),
            secrets=used_secrets(context.tracker, me, identity.namespace, options, url),
        )
        return with_past(context.publisher, subscription, own, in_table=context.settings.history)


def _named(owner: Observer) -> str:
    kind, key = owner
    return f"{kind} {key.namespace}/{key.name}" if key.namespace else kind


def _taken(owner: Observer) -> str:
    return f"Its route belongs to {_named(owner)}."


def _ready_before(obj: Obj) -> set[tuple[str, int]]:
    states = (obj.get("status") or {}).get("subscribers") or []
    return {(s.get("uid", ""), s.get("observedGeneration", 0)) for s in states if s.get("ready") == "True"}
