"""What the router reports: live generations, the routes they leave out, losses, and unreadable events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import structlog

from penstock.contract import topics
from penstock.contract.routes import Route
from penstock.kafka.clients import topic_name
from penstock.kafka.reports import Reporter
from penstock.kafka.topic_ends import NewRecords, Retained, SeenRecord
from penstock.kafka.unreadable import effect, readable_key
from penstock.observability import metrics
from penstock.observability.metrics import UNREADABLE
from penstock.router.generations.generations import Generation
from penstock.router.generations.positions import LostRange
from penstock.router.matched_record import decode
from penstock.settings import Settings

log = structlog.get_logger()

REASONS_BYTES = 400_000
"""What the reasons in one report may take together; with the uids they must fit into a record."""


class Announcements:
    """Reports to the control plane, the log, the metrics and the status."""

    def __init__(self, reporter: Reporter, status: dict[str, Any]) -> None:
        self._reporter, self._status = reporter, status
        self._refused: frozenset[str] = frozenset()

    def live(self, generation: Generation) -> None:
        """From now on the generation's version is in force here, except for the routes that it refused."""
        for uid in generation.refused.keys() - self._refused:
            log.error(
                "a route cannot be served and is left out",
                **_named(generation.routes[uid]),
                reason=generation.refused[uid],
            )
        self._refused = frozenset(generation.refused)
        self._reporter.ack(generation.version, shortened(generation.refused))
        metrics.ROUTER_REFUSED.bind().set(len(self._refused))
        metrics.SNAPSHOT_VERSION.bind("router").set(generation.version)
        if generation.number != self._status["generation"]:
            metrics.ROUTER_SWITCHES.bind().inc()
            metrics.ROUTER_GENERATION.bind().set(generation.number)
        self._status.update(
            generation=generation.number,
            version=generation.version,
            routes=len(generation.routes) - len(self._refused),
            refused=len(self._refused),
        )

    def lost(self, route: Route, lost: LostRange) -> None:
        """Events were removed before the route got them."""
        log.error("events were removed before they were routed", **_named(route), **vars(lost))
        self._reporter.loss(route.uid, lost.partition, lost.first, lost.last)
        metrics.LOST.bind(route.kind, route.namespace, route.name).inc(lost.last - lost.first + 1)


def shortened(reasons: Mapping[str, str]) -> dict[str, str]:
    """The reasons cut so that, however many there are, they fit into one report."""
    longest = REASONS_BYTES // max(1, len(reasons))
    return {uid: reason.encode()[:longest].decode("utf-8", "ignore") for uid, reason in reasons.items()}


def _named(route: Route) -> dict[str, str]:
    return {route.kind.lower(): f"{route.namespace}/{route.name}"}


LOGGED_AT_ONCE = 20
"""Records that are logged one by one at each check; more are only counted."""


class UnreadableEvents:
    """Counts and logs the records that the query found to be neither events of a target nor markers.

    The query writes them to a topic of their own, with headers for their origin. Used by one thread only.
    """

    def __init__(self, settings: Settings) -> None:
        self.count = 0
        self._topic = topic_name(settings, topics.EVENTS)
        self._counter = UNREADABLE.bind(self._topic)
        self._records = NewRecords(settings, topics.UNREADABLE)

    def start(self, ends: list[Retained]) -> None:
        """Counts from these ends on."""
        self._records.start(ends)

    def look(self) -> None:
        """Handles the records since the last call; does not wait."""
        logged = 0
        while (record := self._records.poll()) is not None:
            self.count += 1
            self._counter.inc()
            if logged < LOGGED_AT_ONCE:
                logged += 1
                log.error(
                    "a record cannot be read and is skipped",
                    topic=self._topic,
                    **_place(record),
                    effect=effect(self._topic),
                )

    def close(self) -> None:
        """Leaves Kafka."""
        self._records.close()


def _place(record: SeenRecord) -> dict[str, object]:
    found = decode(record.partition, record.offset, 0, record.headers)
    return {
        "partition": record.partition,
        "offset": None if found is None else found.origin,
        "key": readable_key(record.key),
        "problem": "it is neither an event of a Broker or Channel, nor a marker",
    }
