"""The Channel controller: creates and owns the backing channel, and copies between the two.

Subscribers are copied to the backing channel; its address and the states of its subscribers are copied back.
"""

from __future__ import annotations

import contextlib
import copy
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from penstock.controllers.reconciler import ReconcilerContext
from penstock.controllers.reconcilers.access import access_of
from penstock.controllers.tracker import ObjectRef, Observer
from penstock.kube.errors import Conflict, KubeError, NotFound, Unavailable
from penstock.kube.kinds import CHANNEL, IN_MEMORY_CHANNEL, Key, Kind, Obj
from penstock.resources.channel import BackingChannel, Channel, status_of
from penstock.resources.subscription import Subscription

Entry = dict[str, Any]
"""An entry of a channel's `spec.subscribers`."""


class ChannelReconciler:
    """Channels, whatever their template names."""

    kind = CHANNEL

    def __init__(self, context: ReconcilerContext, subscribers: Subscribers) -> None:
        self._context, self._subscribers = context, subscribers

    async def reconcile(self, key: Key, obj: Obj | None) -> None:
        """See `Reconciler`."""
        context = self._context
        if obj is None:
            left = context.tracker.look((CHANNEL.kind, key), IN_MEMORY_CHANNEL, key)
            if left is not None and _owner_uids(left):
                await self._collect(IN_MEMORY_CHANNEL, key)
            return
        obj = await write_subscribers(context, CHANNEL, obj, self._subscribers.of(CHANNEL, key, _entries(obj)))
        channel = Channel.read(obj)
        kind = Kind(str(channel.template.get("apiVersion") or ""), str(channel.template.get("kind") or ""))
        backing, failure = await self._backing(key, obj, channel, kind)
        if backing is not None:
            direct = self._subscribers.of(kind, key, _entries(backing))
            await write_subscribers(context, kind, backing, merged(channel.subscribers, direct))
        reference = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "name": key.name,
            "namespace": key.namespace,
        }
        access = access_of(context, (CHANNEL.kind, key), CHANNEL, obj)
        status = status_of(obj, BackingChannel(reference, backing, failure), context.now(), access)
        await context.write_status(CHANNEL, obj, status)

    async def _backing(self, key: Key, obj: Obj, channel: Channel, kind: Kind) -> tuple[Obj | None, str | None]:
        """The backing channel, created if it is missing; or why there is none."""
        context = self._context
        found = context.tracker.look((CHANNEL.kind, key), kind, key)
        if found is not None and _owner_uids(found) - {channel.identity.uid}:
            await self._collect(kind, key)
            return None, None
        if found is not None:
            return found, None
        unserved = context.tracker.informer(kind).unserved
        if unserved is not None:
            return None, unserved
        try:
            return await context.api.create(kind, backing_channel(channel, kind)), None
        except (Unavailable, Conflict):
            raise
        except KubeError as error:
            context.recorder.warning(obj, "ChannelFailure", str(error))
            return None, str(error)

    async def _collect(self, kind: Kind, key: Key) -> None:
        """Deletes a backing channel without its Channel: it may have been created just after that was deleted."""
        with contextlib.suppress(NotFound):
            await self._context.api.delete(kind, key)


def backing_channel(channel: Channel, kind: Kind) -> Obj:
    """The backing channel of a Channel, to be created."""
    spec: dict[str, Any] = copy.deepcopy(channel.template.get("spec") or {})
    if channel.delivery:
        spec["delivery"] = channel.delivery
    owner = {
        "apiVersion": CHANNEL.api_version,
        "kind": CHANNEL.kind,
        "name": channel.identity.name,
        "uid": channel.identity.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {
            "name": channel.identity.name,
            "namespace": channel.identity.namespace,
            "ownerReferences": [owner],
        },
        "spec": spec,
    }


async def write_subscribers(context: ReconcilerContext, kind: Kind, obj: Obj, entries: list[Entry]) -> Obj:
    """Stores the entries in the channel unless it has them already; returns the channel with them."""
    if _entries(obj) == entries:
        return obj
    changed = {**obj, "spec": {**(obj.get("spec") or {}), "subscribers": entries}}
    await context.write_spec(kind, changed)
    return context.tracker.informer(kind).get(Key(obj["metadata"]["namespace"], obj["metadata"]["name"])) or changed


def merged(from_channel: list[Entry], direct: list[Entry]) -> list[Entry]:
    """The entries of the Channel, and those of Subscriptions to the backing channel itself."""
    known = {entry.get("uid") for entry in from_channel}
    return [*from_channel, *(entry for entry in direct if entry.get("uid") not in known)]


def _entries(obj: Obj) -> list[Entry]:
    return list((obj.get("spec") or {}).get("subscribers") or [])


def _owner_uids(backing: Obj) -> set[str]:
    owners = backing["metadata"].get("ownerReferences") or []
    return {str(owner.get("uid")) for owner in owners if owner.get("kind") == CHANNEL.kind}


class Subscribers:
    """Which Subscriptions each channel has, and their entries for `spec.subscribers`.

    The list is built from the Subscriptions that exist, so an entry is removed with its Subscription, in whatever order
    things happen. An entry that cannot be built now (its subscriber does not resolve) stays as it is.
    """

    def __init__(self, enqueue: Callable[[Observer], None]) -> None:
        self._enqueue = enqueue
        self._channel: dict[Key, ObjectRef] = {}
        """By Subscription."""
        self._uid: dict[Key, str] = {}
        self._subscriptions: dict[ObjectRef, set[Key]] = defaultdict(set)
        """By channel."""
        self._entries: dict[Key, Entry] = {}

    def subscription_changed(self, key: Key, obj: Obj | None) -> None:
        """A listener for Subscriptions."""
        if obj is None or obj["metadata"].get("deletionTimestamp"):
            self._remove(key)
            return
        reference = Subscription.read(obj).channel
        channel = Kind(reference.api_version, reference.kind), Key(reference.namespace, reference.name)
        if self._channel.get(key) == channel and self._uid.get(key) == obj["metadata"]["uid"]:
            return
        self._remove(key)
        self._channel[key], self._uid[key] = channel, obj["metadata"]["uid"]
        self._subscriptions[channel].add(key)

    def subscriptions_to(self, kind: Kind, key: Key) -> list[Key]:
        """The Subscriptions to this channel, sorted."""
        return sorted(self._subscriptions.get((kind, key), ()))

    def put(self, key: Key, entry: Entry | None) -> None:
        """Sets the entry of a Subscription; None: it cannot be built now."""
        if entry is not None and self._entries.get(key) != entry and key in self._channel:
            self._entries[key] = entry
            self._enqueue_channel(self._channel[key])

    def of(self, kind: Kind, key: Key, existing: Iterable[Entry]) -> list[Entry]:
        """The entries that the channel should have, sorted by the names of their Subscriptions."""
        held = {entry.get("uid"): entry for entry in existing}
        entries = []
        for subscription in self.subscriptions_to(kind, key):
            entry = self._entries.get(subscription) or held.get(self._uid[subscription])
            if entry is not None:
                entries.append(entry)
        return entries

    def _remove(self, key: Key) -> None:
        channel = self._channel.pop(key, None)
        self._uid.pop(key, None)
        self._entries.pop(key, None)
        if channel is not None:
            self._subscriptions[channel].discard(key)
            if not self._subscriptions[channel]:
                del self._subscriptions[channel]
            self._enqueue_channel(channel)

    def _enqueue_channel(self, channel: ObjectRef) -> None:
        kind, key = channel
        self._enqueue((kind.kind, key))
        # A Channel and its backing channel have the same name: the other one of the two has entries of this list, too.
        self._enqueue((IN_MEMORY_CHANNEL.kind if kind == CHANNEL else CHANNEL.kind, key))
