"""What the router tells others: that a generation is live and which routes it does without, and what was lost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import structlog

from penstock.contract.routes import Route
from penstock.kafka.reports import Reporter
from penstock.observability import metrics
from penstock.router.generations.generations import Generation
from penstock.router.generations.positions import LostRange

log = structlog.get_logger()

REASONS_BYTES = 400_000
"""What the reasons in one report may take together; with the uids they must fit into a record."""


class Announcements:
    """Tells the control plane, the log, the metrics and whoever asks for the status."""

    def __init__(self, reporter: Reporter, status: dict[str, Any]) -> None:
        self._reporter, self._status = reporter, status
        self._refused: frozenset[str] = frozenset()

    def live(self, generation: Generation) -> None:
        """From now on the generation's version is in force here, but for the routes it refused."""
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
        """Events were gone before the route got them."""
        log.error("events were gone before they were routed", **_named(route), **vars(lost))
        self._reporter.loss(route.uid, lost.partition, lost.first, lost.last)
        metrics.LOST.bind(route.kind, route.namespace, route.name).inc(lost.last - lost.first + 1)


def shortened(reasons: Mapping[str, str]) -> dict[str, str]:
    """The reasons cut so that, however many there are, they fit into one report."""
    longest = REASONS_BYTES // max(1, len(reasons))
    return {uid: reason.encode()[:longest].decode("utf-8", "ignore") for uid, reason in reasons.items()}


def _named(route: Route) -> dict[str, str]:
    return {route.kind.lower(): f"{route.namespace}/{route.name}"}
