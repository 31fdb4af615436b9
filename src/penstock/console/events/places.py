"""Brokers and channels as events know them: by uid, with a name for people and an address to send to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from penstock.kube.kinds import Obj
from penstock.operations.cluster_api import BROKERS, IN_MEMORY_CHANNELS, ClusterApi
from penstock.operations.sending import SendingAddress, address_in


@dataclass(frozen=True)
class AcceptingTarget:
    """A Broker or channel that accepts events."""

    uid: str
    kind: str
    namespace: str
    name: str
    address: SendingAddress

    @property
    def label(self) -> str:
        """Its name for people."""
        return f"{'broker' if self.kind == 'Broker' else 'channel'} {self.namespace}/{self.name}"


def place_of(obj: Obj) -> AcceptingTarget:
    """The place behind an object."""
    metadata = obj["metadata"]
    return AcceptingTarget(metadata["uid"], obj["kind"], metadata["namespace"], metadata["name"], address_in(obj))


def places_of(api: ClusterApi) -> dict[str, AcceptingTarget]:
    """All of them, by uid. Blocks."""
    objects: Iterable[Obj] = [obj for kind in (BROKERS, IN_MEMORY_CHANNELS) for obj in api.all(kind)]
    return {place.uid: place for place in sorted(map(place_of, objects), key=lambda place: place.label)}
