"""A PingSource that can fire: where its events go, and what they are."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from penstock.events.event import CloudEvent
from penstock.resources.destinations.resolution import ResolvedAddress
from penstock.resources.pingsource import EVENT_TYPE, PingSource
from penstock.resources.schedules import CronSchedule
from penstock.timestamps import rfc3339_of

_IDS = uuid.UUID("6f0b9a52-5f8e-4b0c-9a1d-0e6f3c1d7a44")


@dataclass(frozen=True)
class Ping:
    """A PingSource with its schedule read and its sink found."""

    source: PingSource
    schedule: CronSchedule
    sink: ResolvedAddress

    @property
    def uid(self) -> str:
        """The uid of the PingSource."""
        return self.source.identity.uid


def event_at(ping: Ping, tick: int) -> CloudEvent:
    """The event of a tick. The same tick always has the same id, so that one sent twice can be recognised."""
    source = ping.source
    attributes = {
        "specversion": "1.0",
        "id": str(uuid.uuid5(_IDS, f"{ping.uid}/{tick}")),
        "source": source.event_source,
        "type": EVENT_TYPE,
        "time": rfc3339_of(tick),
    }
    if source.data is not None and source.content_type:
        attributes["datacontenttype"] = source.content_type
    attributes |= {name.lower(): value for name, value in source.extensions.items()}
    return CloudEvent(attributes, source.data)
