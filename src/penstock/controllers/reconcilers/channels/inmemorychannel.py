"""The InMemoryChannel controller: a target at the ingress, and a route for each of its subscribers."""

from __future__ import annotations

from penstock.contract.routes import Record, Route, key_of
from penstock.controllers.api import CHANNEL, IN_MEMORY_CHANNEL, SUBSCRIPTION, Key, Obj
from penstock.controllers.reconciler import ReconcilerContext
from penstock.controllers.reconcilers.access import access_of
from penstock.controllers.reconcilers.broker import was_true
from penstock.controllers.reconcilers.channels.channel import write_subscribers
from penstock.controllers.reconcilers.channels.subscribers import Subscribers
from penstock.controllers.reconcilers.configuration import ingress_addresses, tells_types, transport
from penstock.controllers.reconcilers.destinations import resolve_optional
from penstock.controllers.routes.past import with_past
from penstock.controllers.routes.route_records import (
    channel_host,
    channel_path,
    channel_target,
    ingress_name,
    subscription_route,
)
from penstock.controllers.routes.route_secrets import used_secrets
from penstock.controllers.tracker import Observer
from penstock.resources.delivery.annotations import RouteOptions
from penstock.resources.inmemorychannel.model import InMemoryChannel
from penstock.resources.inmemorychannel.status import ENDPOINTS_READY, ChannelObservation, status_of


class InMemoryChannelReconciler:
    """InMemoryChannels, owned by a Channel or not."""

    kind = IN_MEMORY_CHANNEL

    def __init__(self, world: ReconcilerContext, subscribers: Subscribers) -> None:
        self._world, self._subscribers = world, subscribers

    async def reconcile(self, key: Key, obj: Obj | None) -> None:
        """See `Reconciler`."""
        world, me = self._world, (IN_MEMORY_CHANNEL.kind, key)
        if obj is None:
            world.publisher.claim(me, [])
            return
        channel = InMemoryChannel.read(obj)
        access = access_of(world, me, IN_MEMORY_CHANNEL, obj)
        target = channel_target(
            channel.identity, tells_types=tells_types(world, me), transport=transport(world, me), access=access
        )
        routes = [route for entry in channel.subscribers for route in self._routes(me, channel, entry)]
        records: list[Record] = [target, *routes]
        if world.embedded:
            records.append(ingress_name(channel_host(channel.identity), world.settings))
        world.publisher.claim(me, records)
        sink = (channel.delivery or {}).get("deadLetterSink")
        ready_before = _ready_before(obj)
        seen = ChannelObservation(
            addresses=ingress_addresses(world, me, channel_path(channel.identity), access.audience),
            ingress_takes_it=world.dataplane.ingress_has_taken(key_of(target), before=was_true(obj, ENDPOINTS_READY)),
            dead_letter=resolve_optional(sink, key.namespace, world.tracker.lookup(me)),
            taken={
                route.uid: world.dataplane.has_taken(
                    key_of(route), before=(route.uid, route.generation) in ready_before
                )
                for route in routes
            },
            waiting=world.dataplane.waiting,
            access=access,
        )
        await world.write_status(IN_MEMORY_CHANNEL, obj, status_of(obj, seen, world.now()))
        if not _has_owner(obj):
            # The change comes back through the watch and is claimed then: a claim never waits for a write.
            entries = self._subscribers.of(IN_MEMORY_CHANNEL, key, channel.subscribers)
            current = world.tracker.informer(IN_MEMORY_CHANNEL).get(key)
            if current is not None:
                await write_subscribers(world, IN_MEMORY_CHANNEL, current, entries)

    def _routes(self, me: Observer, channel: InMemoryChannel, entry: dict[str, object]) -> list[Route]:
        subscription = self._world.tracker.look(
            me, SUBSCRIPTION, Key(channel.identity.namespace, str(entry.get("name") or ""))
        )
        same = subscription is not None and subscription["metadata"]["uid"] == entry.get("uid")
        options = RouteOptions.read(subscription) if same and subscription is not None else RouteOptions()
        url = str(entry.get("subscriberUri") or entry.get("replyUri") or "") or None
        secrets = used_secrets(self._world.tracker, me, channel.identity.namespace, options, url)
        own = subscription_route(entry, channel.identity, options, secrets)
        if not same or subscription is None:
            return [own]
        return with_past(self._world.publisher, subscription, own, in_table=self._world.settings.history)


def _has_owner(obj: Obj) -> bool:
    return any(one.get("kind") == CHANNEL.kind for one in obj["metadata"].get("ownerReferences") or [])


def _ready_before(obj: Obj) -> set[tuple[str, int]]:
    states = (obj.get("status") or {}).get("subscribers") or []
    return {(s.get("uid", ""), s.get("observedGeneration", 0)) for s in states if s.get("ready") == "True"}
