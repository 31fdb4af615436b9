"""What the data plane has reported: which version of the routes it acts by, how deliveries go, which events are gone.

Ready is built on this. What was once acknowledged stays so while a component restarts: it comes back with the newest
snapshot, and events are kept meanwhile. Only an ingress that has been silent for long makes Brokers unready, because
nobody takes events then. A loss is a thing of the past that nothing undoes, so it is shown for a while and then let go.
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
from penstock.controllers.routes.route_health import RouteHappening, RouteStandings
from penstock.controllers.tracker import Observer
from penstock.kafka.table import TableFollower
from penstock.kube.kinds import Key
from penstock.resources.delivery_status import DeliveryState
from penstock.runtime.tasks import TaskScope
from penstock.settings import Settings

log = structlog.get_logger()


LOSSES_SHOWN = 8
"""Ranges of lost events that are shown of a partition."""


class DataPlane:
    """The state of the data plane as far as it has been reported."""

    def __init__(
        self,
        settings: Settings,
        publisher: Publisher,
        enqueue: Callable[[Observer], None],
        ingress_changed: Callable[[], None],
        *,
        losses_shown: float,
    ) -> None:
        self.in_force = 0
        """The newest version that every component has acknowledged."""
        self.at_ingress = 0
        """The newest version that every ingress has acknowledged."""
        self.ingress_lives = True
        self._publisher, self._enqueue, self._ingress_changed = publisher, enqueue, ingress_changed
        self._acks: dict[str, Heard] = {}
        self._caught_up = False
        """Whether reports are read as they come, not as they lay there."""
        self._losses: dict[str, dict[tuple[int, int], Loss]] = defaultdict(dict)
        """By route, then by partition and first offset."""
        self._losses_shown = losses_shown
        self._replays: dict[str, dict[int, ReplayProgress]] = defaultdict(dict)
        self._refused: dict[str, str] = {}
        self.waiting = ""
        """Why the router cannot act by a newer version for now; empty where nothing is in its way."""
        self.type_seen: Callable[[SeenType], None] = lambda _: None
        """Told of types of events that pass."""
        self._standings = RouteStandings()
        self.happened: Callable[[Route, RouteHappening], None] = lambda _route, _happening: None
        """Told what people should know of a route's deliveries."""
        self._heard_ingress = time.monotonic()
        self._following = False
        self._owner = TaskScope()
        publisher.announce, publisher.look_again = self.published, enqueue
        self._follower = TableFollower(
            settings, topics.REPORTS, self._receive, self._reached_end, self._owner.fail, again=self._reads_again
        )

    def start(self) -> None:
        """Begins to follow the reports."""
        self._follower.start()
        self._following = True

    def published(self, version: int) -> None:
        """Takes in that a version is out. Its acknowledgement may have been faster than the publisher's own return."""
        if version <= max(self.in_force, self.at_ingress):
            for owner in self._publisher.owners_between(version - 1, version):
                self._enqueue(owner)

    async def close(self) -> None:
        """Ends following, if it had begun."""
        if self._following:
            await asyncio.to_thread(self._follower.stop)

    async def run(self) -> None:
        """Notices silence until cancelled. Raises what ended the following of reports."""
        while True:
            await asyncio.sleep(1)
            self._owner.check()
            self._evaluate(time.monotonic())
            self.let_go(time.time())
            self.show_deliveries(time.time())
            self._publisher.look_after()

    def has_taken(self, key: str, *, before: bool) -> bool:
        """Whether every component acts by the record as it is. `before`: whether that was already found."""
        return self._is_covered(key, self.in_force) or (before and self._publisher.is_as_restored(key))

    def ingress_has_taken(self, key: str, *, before: bool) -> bool:
        """Whether every ingress acts by the record as it is."""
        covered = self._is_covered(key, self.at_ingress) or (before and self._publisher.is_as_restored(key))
        return covered and self.ingress_lives

    def losses(self, route: str) -> tuple[str, ...]:
        """The ranges of events that were gone before the route got them, as long as they are shown."""
        found = self._losses.get(route, {})
        return tuple(f"partition {p}, offsets {loss.first} to {loss.last}" for (p, _), loss in sorted(found.items()))

    def delivery(self, route: str) -> DeliveryState | None:
        """How the route's deliveries go, as its status should tell it; None where nothing is known."""
        return self._standings.shown(route)

    def replayed(self, route: str) -> dict[int, ReplayProgress]:
        """How far a Replay has got, by partition."""
        return dict(self._replays.get(route, {}))

    def refused(self, route: str) -> str | None:
        """Why the router does without the route; None where it does not."""
        return self._refused.get(route)

    def take(self, key: str, report: Report | None) -> None:
        """Takes in one report; None where its key was deleted."""
        if report is None:
            self._acks.pop(key, None)
            if key.startswith("standing/"):
                self._standings.forget(key)
            if key.startswith("replay/"):
                self._replays.pop(key.split("/")[1], None)
        elif isinstance(report, Ack):
            now = time.monotonic()
            self._acks[key] = reports.heard(report, monotonic=now, unix=time.time(), fresh=self._caught_up)
            if report.component == "router":
                # What a router that has ended refused counts until there is another.
                before, self._refused = self._refused, report.refused
                for uid in before.keys() ^ report.refused.keys():
                    self._look_at(uid)
                self._note_waiting(report.waiting)
            self._evaluate(now)
        elif isinstance(report, SeenType):
            self.type_seen(report)
        elif isinstance(report, Standing):
            self._standings.take(report, fresh=self._caught_up)
        elif isinstance(report, ReplayProgress):
            self._replays[report.route][report.partition] = report
            self._look_at(report.route)
        elif isinstance(report, Loss) and time.time() - report.at < self._losses_shown:
            self._keep_loss(report)
            self._look_at(report.route)

    def _keep_loss(self, loss: Loss) -> None:
        """Of each partition the newest are shown: a route that stumbles along behind retention may have very many."""
        kept = self._losses[loss.route]
        kept[loss.partition, loss.first] = loss
        own = sorted((one.at, place) for place, one in kept.items() if place[0] == loss.partition)
        for _, place in own[:-LOSSES_SHOWN]:
            del kept[place]

    def _note_waiting(self, reason: str) -> None:
        """Has those told who wait for the router."""
        if reason != self.waiting:
            self.waiting = reason
            for owner in self._publisher.owners_between(self.in_force, sys.maxsize):
                self._enqueue(owner)

    def let_go(self, now: float) -> None:
        """Forgets the losses that have been shown for long enough."""
        old = [
            loss for found in self._losses.values() for loss in found.values() if now - loss.at >= self._losses_shown
        ]
        for loss in old:
            del self._losses[loss.route][loss.partition, loss.first]
            if not self._losses[loss.route]:
                del self._losses[loss.route]
            self._look_at(loss.route)

    def show_deliveries(self, now: float) -> None:
        """Has statuses written and people told, as far as there is anything new."""
        acks = reports.alive(self._acks.values(), time.monotonic())
        alive = {ack.instance for ack in acks if ack.component == "dispatcher"}
        changed, happenings = self._standings.tick(now, alive)
        for uid in changed:
            self._look_at(uid)
        for happening in happenings:
            if (route := self._route(happening.route)) is not None:
                self.happened(route, happening)

    def _look_at(self, uid: str) -> None:
        if (route := self._route(uid)) is None:
            return
        if route.replay is None or route.replay.past_of is None:
            self._enqueue((route.kind, Key(route.namespace, route.name)))
            return
        self._look_at(route.replay.past_of)
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
        if value is None or report is not None:  # others belong to kinds that are not for the control plane
            self._owner.hand_over(self.take, key, report)

    def _reached_end(self) -> None:
        """Called from the follower's thread."""
        self._owner.hand_over(self.caught_up)

    def caught_up(self) -> None:
        """From now on reports are fresh when they are taken in."""
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
            log.warning("the ingress is back" if lives else "no ingress has been heard of for long")
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
