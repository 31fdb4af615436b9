"""Makes EventTypes of the types that the ingress has seen pass, where `eventtype-auto-create` is enabled.

Nothing depends on them, so they never hold anything up: what cannot be created now is created when it is told again.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping

import structlog

from penstock.contract.reports import SeenType
from penstock.contract.routes import Target
from penstock.controllers.routes.publisher import Publisher
from penstock.controllers.tracker import Tracker
from penstock.kube.client import AsyncClient
from penstock.kube.errors import Conflict, KubeError
from penstock.kube.kinds import BROKER, EVENT_TYPE, IN_MEMORY_CHANNEL, Key, Kind, key_of
from penstock.observability.logs import describe as described
from penstock.resources.eventtype import Passed, SentTo, describe
from penstock.resources.metadata import ObjectIdentity

MOST_WAITING = 1000
OLDEST_SECONDS = 600.0
"""Reports older than this say nothing: what they tell of is told again if it still passes."""
MOST_OF_A_TARGET = 1000
"""EventTypes made of what passes one target; a producer that counts up its type must not fill the API."""

_KINDS: Mapping[str, Kind] = {"Broker": BROKER, "Channel": IN_MEMORY_CHANNEL}

log = structlog.get_logger()


class EventTypeMaker:
    """Takes reports and creates what is not there."""

    def __init__(self, api: AsyncClient, tracker: Tracker, publisher: Publisher) -> None:
        self._api, self._tracker, self._publisher = api, tracker, publisher
        self._waiting: asyncio.Queue[SeenType] = asyncio.Queue(MOST_WAITING)
        self._made: dict[str, set[Key]] = {}

    def take(self, seen: SeenType) -> None:
        """Takes in a report; one too many is left out, and told again later."""
        if time.time() - seen.at < OLDEST_SECONDS and not self._waiting.full():
            self._waiting.put_nowait(seen)

    async def run(self) -> None:
        """Creates EventTypes until cancelled."""
        while True:
            seen = await self._waiting.get()
            try:
                await self._make(seen)
            except KubeError as error:
                log.warning("an EventType could not be made of what passes", type=seen.type, error=described(error))

    async def _make(self, seen: SeenType) -> None:
        target = self._publisher.held(f"target/{seen.target}")
        if not isinstance(target, Target) or not target.tells_types:
            self._made.pop(seen.target, None)
            return
        informer = self._tracker.informer(EVENT_TYPE)
        await informer.synced.wait()
        wanted = describe(_place(target), Passed(seen.type, seen.source, seen.schema, seen.specversion))
        made = self._made.setdefault(target.uid, set())
        if informer.get(key_of(wanted)) is not None or (len(made) >= MOST_OF_A_TARGET and key_of(wanted) not in made):
            return
        made.add(key_of(wanted))
        with contextlib.suppress(Conflict):
            await self._api.create(EVENT_TYPE, wanted)


def _place(target: Target) -> SentTo:
    kind = _KINDS[target.kind]
    return SentTo(kind.api_version, kind.kind, ObjectIdentity(target.namespace, target.name, target.uid))
