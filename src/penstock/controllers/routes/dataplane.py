"""What the data plane has reported: which version of the routes it has applied, how deliveries go, which events are
lost.

Ready depends on this. An acknowledged version stays acknowledged while a component restarts: it starts with the newest
snapshot, and events are kept meanwhile. Only when no ingress has reported for long do Brokers become unready, because
no events are accepted then. A loss cannot be undone, so it is shown for a limited time.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import defaultdict
from collections.abc import Callable

import structlog

from penstock.contract import reports, topics
from penstock.contract.reports import Ack, Heard, Loss, ReplayProgress, Report, SeenType, Standing
from penstock.contract.routes import Route
from penstock.controllers.routes.publisher import Publisher
from penstock.controllers.routes.route_health import RouteEvent, RouteHealthTracker
from penstock.controllers.tracker import Observer
from penstock.kafka.table import TableFollower
from penstock.kube.kinds import Key
from penstock.resources.delivery_status import DeliveryState
from penstock.runtime.tasks import TaskScope
from penstock.settings import Settings

log = structlog.get_logger()


LOSSES_SHOWN = 8
"""Ranges of lost events that are shown per partition."""


class DataPlane:
    """The state of the data plane as far as it has been reported."""

    def __init__(
        self,
        settings: Settings,
        publisher: Publisher,
        enqueue: Callable[[Observer], None],
        ingress_changed: Callable[[], None],
        *,
        type_seen: Callable[[SeenType], None],
        announce: Callable[[Route, RouteEvent], None],
        losses_shown: float,
    ) -> None:
        """`type_seen` gets the reported types of events, `announce` what users should know about a route's deliveries;
        losses are shown for `losses_shown` seconds."""
        self.in_force = 0
        """The newest version that every component has acknowledged."""
        self.at_ingress = 0
        """The newest version that every ingress has acknowledged."""
        self.ingress_lives = True
        self._publisher, self._enqueue, self._ingress_changed = publisher, enqueue, ingress_changed
        self._acks: dict[str, Heard] = {}
        self._caught_up = False
        """Whether all reports from before the start have been read."""
        self._losses: dict[str, dict[tuple[int, int], Loss]] = defaultdict(dict)
        """By route, then by partition and first offset."""
        self._losses_shown = losses_shown
        self._replays: dict[str, dict[int, ReplayProgress]] = defaultdict(dict)
        self._refused: dict[str, str] = {}
        self.waiting = ""
        """Why the router cannot apply a newer version for now; empty where it can."""
        self._type_seen, self._announce = type_seen, announce
        self._health = RouteHealthTracker()
        self._heard_ingress = time.monotonic()
        self._following = False
        self._owner = TaskScope()
        publisher.listen(self.published)
        self._follower = TableFollower(
            settings, topics.REPORTS, self._receive, self._reached_end, self._owner.fail, again=self._reads_again
        )

    def start(self) -> None:
        """Starts reading the reports."""
        self._follower.start()
        self._following = True

    def published(self, version: int) -> None:
        """A version was published. Its acknowledgement may have been received before the publisher's call returned."""
        if version <= max(self.in_force, self.at_ingress):
            for owner in self._publisher.owners_between(version - 1, version):
                self._enqueue(owner)

    async def close(self) -> None:
        """Stops reading the reports, if that was started."""
        if self._following:
            await asyncio.to_thread(self._follower.stop)

    async def run(self) -> None:
        """Checks once a second until cancelled. Raises the error that ended the reading of reports."""
        while True:
            await asyncio.sleep(1)
            self._owner.check()
            self._evaluate(time.monotonic())
            self.expire_losses(time.time())
            self.show_deliveries(time.time())
            self._publisher.poll()

    def has_taken(self, key: str, *, before: bool) -> bool:
        """Whether every component has applied the record as it is. `before`: whether the status says so already."""
        return self._is_covered(key, self.in_force) or (before and self._publisher.is_as_restored(key))

    def ingress_has_taken(self, key: str, *, before: bool) -> bool:
        """Whether every ingress has applied the record as it is."""
        covered = self._is_covered(key, self.at_ingress) or (before and self._publisher.is_as_restored(key))
        return covered and self.ingress_lives

    def losses(self, route: str) -> tuple[str, ...]:
        """The ranges of events that were removed before the route got them, as far as they are shown."""
        found = self._losses.get(route, {})
        return tuple(f"partition {p}, offsets {loss.first} to {loss.last}" for (p, _), loss in sorted(found.items()))

    def delivery(self, route: str) -> DeliveryState | None:
        """How the route's deliveries go, as its status should show it; None where nothing is known."""
        return self._health.shown(route)

    def replayed(self, route: str) -> dict[int, ReplayProgress]:
        """The progress of a Replay, by partition."""
        return dict(self._replays.get(route, {}))

    def refused(self, route: str) -> str | None:
        """Why the router does not serve the route; None where it does."""
        return self._refused.get(route)

    def take(self, key: str, report: Report | None) -> None:
        """Applies one report; None where its key was deleted."""
        if report is None:
            self._acks.pop(key, None)
            if key.startswith("standing/"):
                self._health.forget(key)
            if key.startswith("replay/"):
                self._replays.pop(key.split("/")[1], None)
        elif isinstance(report, Ack):
            now = time.monotonic()
            self._acks[key] = reports.heard(report, monotonic=now, unix=time.time(), fresh=self._caught_up)
            if report.component == "router":
                # What a router refused stays in force after its end, until the next router reports.
                before, self._refused = self._refused, report.refused
                for uid in before.keys() ^ report.refused.keys():
                    self._enqueue_route(uid)
                self._set_waiting(report.waiting)
            self._evaluate(now)
        elif isinstance(report, SeenType):
            self._type_seen(report)
        elif isinstance(report, Standing):
            self._health.take(report, fresh=self._caught_up)
        elif isinstance(report, ReplayProgress):
            self._replays[report.route][report.partition] = report
            self._enqueue_route(report.route)
        elif isinstance(report, Loss) and time.time() - report.at < self._losses_shown:
            self._add_loss(report)
            self._enqueue_route(report.route)

    def _add_loss(self, loss: Loss) -> None:
        """Keeps the newest of each partition: a route that stays behind retention may have very many."""
        kept = self._losses[loss.route]
        kept[loss.partition, loss.first] = loss
        own = sorted((one.at, key) for key, one in kept.items() if key[0] == loss.partition)
        for _, key in own[:-LOSSES_SHOWN]:
            del kept[key]

    def _set_waiting(self, reason: str) -> None:
        """Enqueues the objects whose newest version the router has not applied, so that their status has the reason."""
        if reason != self.waiting:
            self.waiting = reason
            for owner in self._publisher.owners_between(self.in_force, sys.maxsize):
                self._enqueue(owner)

    def expire_losses(self, now: float) -> None:
        """Removes the losses that have been shown for long enough."""
        old = [
            loss for found in self._losses.values() for loss in found.values() if now - loss.at >= self._losses_shown
        ]
        for loss in old:
            del self._losses[loss.route][loss.partition, loss.first]
            if not self._losses[loss.route]:
                del self._losses[loss.route]
            self._enqueue_route(loss.route)

    def show_deliveries(self, now: float) -> None:
        """Has statuses written and Events recorded where route health has changed."""
        acks = reports.alive(self._acks.values(), time.monotonic())
        alive = {ack.instance for ack in acks if ack.component == "dispatcher"}
        changed, events = self._health.tick(now, alive)
        for uid in changed:
            self._enqueue_route(uid)
        for event in events:
            if (route := self._route(event.route)) is not None:
                self._announce(route, event)

    def _enqueue_route(self, uid: str) -> None:
        if (route := self._route(uid)) is None:
            return
        if route.replay is None or route.replay.past_of is None:
            self._enqueue((route.kind, Key(route.namespace, route.name)))
            return
        self._enqueue_route(route.replay.past_of)
        if (owner := self._publisher.owner_of(f"route/{uid}")) is not None:
            self._enqueue(owner)

    def _route(self, uid: str) -> Route | None:
        route = self._publisher.held(f"route/{uid}")
        return route if isinstance(route, Route) else None

    def _is_covered(self, key: str, version: int) -> bool:
        changed_at = self._publisher.version_of(key)
        return changed_at is not None and changed_at <= version

    def _receive(self, key: str, value: bytes | None) -> None:
        """Called from the follower's thread."""
        report = None if value is None else reports.decode(key, value)
        if value is None or report is not None:  # other kinds of reports are not for the control plane
            self._owner.hand_over(self.take, key, report)

    def _reached_end(self) -> None:
        """Called from the follower's thread."""
        self._owner.hand_over(self.caught_up)

    def caught_up(self) -> None:
        """From now on reports are fresh when they are read."""
        self._caught_up = True

    def _reads_again(self) -> None:
        """Called from the follower's thread."""
        self._owner.hand_over(self._read_again)

    def _read_again(self) -> None:
        self._caught_up = False

    def _evaluate(self, now: float) -> None:
        acks = reports.alive(self._acks.values(), now)
        if ingress := [ack.version for ack in acks if ack.component == "ingress"]:
            self._heard_ingress = now
            self._advance_ingress(min(ingress))
        self._advance(reports.version_in_force(acks))
        lives = now - self._heard_ingress <= reports.SILENT_SECONDS
        if lives != self.ingress_lives:
            self.ingress_lives = lives
            log.warning("the ingress reports again" if lives else "no ingress has reported for long")
            self._ingress_changed()

    def _advance(self, version: int) -> None:
        before, self.in_force = self.in_force, max(self.in_force, version)
        for owner in self._publisher.owners_between(before, self.in_force):
            self._enqueue(owner)

    def _advance_ingress(self, version: int) -> None:
        before, self.at_ingress = self.at_ingress, max(self.at_ingress, version)
        for owner in self._publisher.owners_between(before, self.at_ingress):
            if owner[0] != "Trigger":
                self._enqueue(owner)
