"""Which Subscriptions a channel has, and their entries for `spec.subscribers`.

The list is made anew from the Subscriptions that exist, so an entry goes when its Subscription does, in whatever
order things happen. An entry that cannot be made now (its subscriber does not resolve) stays as it is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from penstock.controllers.tracker import Observer
from penstock.kube.kinds import CHANNEL, IN_MEMORY_CHANNEL, Key, Kind, Obj
from penstock.resources.subscription import Subscription

Entry = dict[str, Any]
Place = tuple[Kind, Key]


class Subscribers:
    """The entries of all Subscriptions."""

    def __init__(self, enqueue: Callable[[Observer], None]) -> None:
        self._enqueue = enqueue
        self._place: dict[Key, Place] = {}
        self._uid: dict[Key, str] = {}
        self._at: dict[Place, set[Key]] = defaultdict(set)
        self._entries: dict[Key, Entry] = {}

    def announce(self, key: Key, obj: Obj | None) -> None:
        """Takes in a Subscription as it now is; to be told by the informer."""
        if obj is None or obj["metadata"].get("deletionTimestamp"):
            self._remove(key)
            return
        channel = Subscription.read(obj).channel
        place = Kind(channel.api_version, channel.kind), Key(channel.namespace, channel.name)
        if self._place.get(key) == place and self._uid.get(key) == obj["metadata"]["uid"]:
            return
        self._remove(key)
        self._place[key], self._uid[key] = place, obj["metadata"]["uid"]
        self._at[place].add(key)

    def at(self, kind: Kind, key: Key) -> list[Key]:
        """The Subscriptions that name this channel, by name."""
        return sorted(self._at.get((kind, key), ()))

    def put(self, key: Key, entry: Entry | None) -> None:
        """The entry of a Subscription as it should be; None: it cannot be made now."""
        if entry is not None and self._entries.get(key) != entry and key in self._place:
            self._entries[key] = entry
            self._tell(self._place[key])

    def of(self, kind: Kind, key: Key, existing: Iterable[Entry]) -> list[Entry]:
        """The entries that the channel should have, by name."""
        held = {entry.get("uid"): entry for entry in existing}
        entries = []
        for subscription in self.at(kind, key):
            entry = self._entries.get(subscription) or held.get(self._uid[subscription])
            if entry is not None:
                entries.append(entry)
        return entries

    def _remove(self, key: Key) -> None:
        place = self._place.pop(key, None)
        self._uid.pop(key, None)
        self._entries.pop(key, None)
        if place is not None:
            self._at[place].discard(key)
            if not self._at[place]:
                del self._at[place]
            self._tell(place)

    def _tell(self, place: Place) -> None:
        kind, key = place
        self._enqueue((kind.kind, key))
        if kind != CHANNEL:
            # The channel may be the backing of a Channel of the same name, which then keeps its list.
            self._enqueue((CHANNEL.kind, key))
        else:
            self._enqueue((IN_MEMORY_CHANNEL.kind, key))
