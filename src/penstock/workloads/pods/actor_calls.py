"""What the node answers to a built-in program: for its own Pod, and nothing that is not in `node_line`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from penstock.certificates import KeyPair
from penstock.contract.names import NothingThere, service_host, service_names
from penstock.destinations import Destinations
from penstock.observability.logs import describe
from penstock.sources.targets import Refused, targets_of
from penstock.tls.server import NoCertificate
from penstock.workloads.actors.node_line import Call, Reach, Reply
from penstock.workloads.actors.shown_certificate import Pair
from penstock.workloads.kubernetes import Manifest, PodApi
from penstock.workloads.proxy import Locate, place

REASON = "CloudEventObserved"
MOST_LOOKUPS = 4
"""Of names, for all programs: each takes a thread of the node for as long as DNS does."""

MakeCertificate = Callable[[datetime], KeyPair]
"""Raises NoCertificate."""

_SERVICE = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True)
class ActorServices:
    """What the node does for built-in programs."""

    api: PodApi
    locate: Locate
    destinations: Destinations
    trusted: Callable[[], str]
    """The trust bundles as they are now, in PEM."""
    certificate: Callable[[Sequence[str]], MakeCertificate]
    """Makes certificates of a server for these names."""
    most_bytes: int
    """The largest event."""
    lookups: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MOST_LOOKUPS))


class ActorCalls:
    """Answers the calls of one program."""

    def __init__(self, pod: Manifest, services: ActorServices) -> None:
        self._pod, self._services = pod, services
        self._certificates: dict[str, MakeCertificate] = {}

    async def answer(self, call: Call) -> Reply:
        """What the program gets; a failure is an answer, too."""
        try:
            return Reply(call.number, await self._result(call))
        except (Refused, NothingThere, NoCertificate) as refusal:
            return Reply(call.number, error=str(refusal))
        except Exception as error:  # a program sends what it likes: whatever it causes is its answer
            return Reply(call.number, error=describe(error))

    async def _result(self, call: Call) -> Any:
        """What a call gives. Raises Refused, NothingThere, NoCertificate, or what the API fails with."""
        services, asked = self._services, call.arguments
        match call.name:
            case "locate":
                return await self._locate(asked["url"])
            case "review":
                return await services.api.review(asked["token"], asked["audience"])
            case "record":
                name, message, component = asked["name"], asked["message"], asked["component"]
                return await services.api.record(
                    self._pod, name=name, reason=REASON, message=message, component=component
                )
            case "certificate":
                return await self._certificate(asked["service"])
        raise Refused(f"there is no call {call.name}")

    async def _locate(self, url: str) -> Reach:
        namespace = self._pod["metadata"]["namespace"]
        location = place(self._services.locate, url, namespace)
        async with self._services.lookups:
            targets = await targets_of(location, self._services.destinations, namespace)
        return Reach(targets, self._services.trusted() if url.startswith("https:") else "")

    async def _certificate(self, service: str) -> Pair:
        # Whoever may make Pods in a namespace may not speak for anyone but its Services: no name has a dot, and of the
        # names in full those are left out that are short enough to mean a host elsewhere.
        if _SERVICE.fullmatch(service) is None:
            raise Refused(f'"{service}" is not the name of a Service')
        if service not in self._certificates:
            names = service_names(service_host(service, self._pod["metadata"]["namespace"]))[:2]
            self._certificates[service] = self._services.certificate(names)
        pair = await asyncio.to_thread(self._certificates[service], datetime.now(UTC))
        return Pair(pair.certificate.decode(), pair.key.decode())
