"""The Channel controller: creates and owns the channel that does the work, and copies between the two.

Subscribers go down to the backing channel, address and states of subscribers come up.
"""

from __future__ import annotations

import contextlib
import copy
from typing import Any

from penstock.controllers.reconciler import ReconcilerContext
from penstock.controllers.reconcilers.access import access_of
from penstock.controllers.reconcilers.channels.subscribers import Entry, Subscribers
from penstock.kube.errors import Conflict, KubeError, NotFound, Unavailable
from penstock.kube.kinds import CHANNEL, IN_MEMORY_CHANNEL, Key, Kind, Obj
from penstock.resources.channel import BackingChannel, Channel, status_of


class ChannelReconciler:
    """Channels, whatever their template names."""

    kind = CHANNEL

    def __init__(self, world: ReconcilerContext, subscribers: Subscribers) -> None:
        self._world, self._subscribers = world, subscribers

    async def reconcile(self, key: Key, obj: Obj | None) -> None:
        """See `Reconciler`."""
        world = self._world
        if obj is None:
            left = world.tracker.look((CHANNEL.kind, key), IN_MEMORY_CHANNEL, key)
            if left is not None and _owner_uids(left):
                await self._collect(IN_MEMORY_CHANNEL, key)
            return
        obj = await write_subscribers(world, CHANNEL, obj, self._subscribers.of(CHANNEL, key, _entries(obj)))
        channel = Channel.read(obj)
        kind = Kind(str(channel.template.get("apiVersion") or ""), str(channel.template.get("kind") or ""))
        backing, failure = await self._backing(key, obj, channel, kind)
        if backing is not None:
            direct = self._subscribers.of(kind, key, _entries(backing))
            await write_subscribers(world, kind, backing, merged(channel.subscribers, direct))
        reference = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "name": key.name,
            "namespace": key.namespace,
        }
        access = access_of(world, (CHANNEL.kind, key), CHANNEL, obj)
        status = status_of(obj, BackingChannel(reference, backing, failure), world.now(), access)
        await world.write_status(CHANNEL, obj, status)

    async def _backing(self, key: Key, obj: Obj, channel: Channel, kind: Kind) -> tuple[Obj | None, str | None]:
        """The backing channel, created if it is not there; or why there is none."""
        world = self._world
        found = world.tracker.look((CHANNEL.kind, key), kind, key)
        if found is not None and _owner_uids(found) - {channel.identity.uid}:
            await self._collect(kind, key)
            return None, None
        if found is not None:
            return found, None
        unserved = world.tracker.informer(kind).unserved
        if unserved is not None:
            return None, unserved
        try:
            return await world.api.create(kind, backing_channel(channel, kind)), None
        except (Unavailable, Conflict):
            raise
        except KubeError as error:
            world.recorder.warning(obj, "ChannelFailure", str(error))
            return None, str(error)

    async def _collect(self, kind: Kind, key: Key) -> None:
        """Deletes a backing channel whose Channel is gone: it may have been created just after that was deleted."""
        with contextlib.suppress(NotFound):
            await self._world.api.delete(kind, key)


def backing_channel(channel: Channel, kind: Kind) -> Obj:
    """The channel that does the work, as it is created."""
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


async def write_subscribers(world: ReconcilerContext, kind: Kind, obj: Obj, entries: list[Entry]) -> Obj:
    """Stores the entries in the channel if it has others; the channel as it then is."""
    if _entries(obj) == entries:
        return obj
    changed = {**obj, "spec": {**(obj.get("spec") or {}), "subscribers": entries}}
    await world.write_spec(kind, changed)
    return world.tracker.informer(kind).get(Key(obj["metadata"]["namespace"], obj["metadata"]["name"])) or changed


def merged(from_channel: list[Entry], direct: list[Entry]) -> list[Entry]:
    """The entries of the Channel, and those of Subscriptions that name the backing channel itself."""
    known = {entry.get("uid") for entry in from_channel}
    return [*from_channel, *(entry for entry in direct if entry.get("uid") not in known)]


def _entries(obj: Obj) -> list[Entry]:
    return list((obj.get("spec") or {}).get("subscribers") or [])


def _owner_uids(backing: Obj) -> set[str]:
    owners = backing["metadata"].get("ownerReferences") or []
    return {str(owner.get("uid")) for owner in owners if owner.get("kind") == CHANNEL.kind}
