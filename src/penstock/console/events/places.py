"""Brokers and channels as events know them: by uid, with a name for people and an address to send to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import httpx2

from penstock.engine.problem import Problem
from penstock.events import http
from penstock.events.event import CloudEvent
from penstock.operations.cluster_api import BROKERS, IN_MEMORY_CHANNELS, ClusterApi
from penstock.tls.clients import tls_to

Obj = dict[str, Any]

SEND_SECONDS = 30.0


@dataclass(frozen=True)
class Place:
    """A Broker or channel that accepts events."""

    uid: str
    kind: str
    namespace: str
    name: str
    url: str = ""
    authorities: str = ""
    """Certificates of who is trusted to serve `url`, in PEM; empty: the system's."""

    @property
    def label(self) -> str:
        """Its name for people."""
        return f"{'broker' if self.kind == 'Broker' else 'channel'} {self.namespace}/{self.name}"


def place_of(obj: Obj) -> Place:
    """The place behind an object."""
    metadata, address = obj["metadata"], (obj.get("status") or {}).get("address") or {}
    return Place(
        metadata["uid"],
        obj["kind"],
        metadata["namespace"],
        metadata["name"],
        str(address.get("url") or ""),
        str(address.get("CACerts") or ""),
    )


def places_of(api: ClusterApi) -> dict[str, Place]:
    """All of them, by uid. Blocks."""
    objects: Iterable[Obj] = [obj for kind in (BROKERS, IN_MEMORY_CHANNELS) for obj in api.all(kind)]
    return {place.uid: place for place in sorted(map(place_of, objects), key=lambda place: place.label)}


async def send_again(event: CloudEvent, place: Place) -> None:
    """Sends the event to the place. Raises Problem where it is not accepted."""
    if not place.url:
        raise Problem(f"The {place.label} has no address yet.", "Is it Ready?")
    headers, body = http.to_binary(event)
    try:
        trusted = tls_to(place.authorities)
        async with httpx2.AsyncClient(timeout=SEND_SECONDS, trust_env=False, verify=trusted) as client:
            answer = await client.post(place.url, headers=headers, content=body)
    except ValueError as error:
        raise Problem(f"The {place.label} cannot be sent to: {error}.") from None
    except (httpx2.TransportError, httpx2.InvalidURL, httpx2.UnsupportedProtocol) as error:
        raise Problem(f"The {place.label} does not answer at {place.url}: {error or type(error).__name__}.") from None
    if not answer.is_success:
        raise Problem(f"The {place.label} did not accept it: {answer.status_code} {answer.text.strip()[:300]}")
