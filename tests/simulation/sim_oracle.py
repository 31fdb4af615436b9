"""What is promised, checked from outside: by what users asked for, what senders sent and what subscribers saw.

It knows everything that was ever stored in `penstock.events`, the requests to the API and when it said Ready, every
attempt on the network, and every loss that was reported. It knows nothing of what penstock thinks.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from penstock.contract import records as headers
from penstock.contract import topics
from penstock.events import kafka_binding
from tests.simulation.sim_kafka import Partition, SimKafka
from tests.simulation.sim_network import Attempt, Network

FLUSHED_SECONDS = 4.0
"""Within which the end of a delivery is written down: the longest `cursor_flush_ms`, and what a flush takes."""


@dataclass
class Rule:
    """What a route wanted from some time on."""

    types: str
    asked: float
    ready: float | None = None
    """When the user was shown that it is in force."""


@dataclass
class Life:
    """A Trigger from its creation to its deletion, or a Replay of one."""

    name: str
    uid: str
    subscriber: str
    """As the network names who gets it: a Replay's deliveries go by a name of their own."""
    asked: float
    rules: list[Rule]
    """A Replay's are those of its Trigger."""
    ordered: bool
    retry: int
    dead_letter: str = ""
    """The name of its dead letter sink."""
    past: bool = False
    """Whether it may get events that came before it was asked for."""
    replays: bool = False
    deleted: bool = False
    over: bool = False
    """Of a Replay: whether the user was shown that it has ended."""


@dataclass(frozen=True)
class Stored:
    """An event in the log."""

    ident: str
    type: str
    key: str
    partition: int
    offset: int
    sent: float
    """When it was handed over."""
    stored: float


@dataclass(frozen=True)
class Loss:
    """Events that were reported as lost."""

    route: str
    partition: int
    first: int
    last: int

    def holds(self, event: Stored) -> bool:
        """Whether it names the event."""
        return self.partition == event.partition and self.first <= event.offset <= self.last


@dataclass(frozen=True)
class Broken:
    """A promise that was not kept."""

    promise: str
    what: str

    def __str__(self) -> str:
        return f"{self.promise}: {self.what}"


LOST, FALSE_LOSS, STRANGER, AGAIN = "lost", "not lost", "never wanted", "repeated"
ORDER, SHUT_OUT, STUCK, DEFECT = "out of order", "shut out", "stuck", "defect"


@dataclass
class Oracle:
    """Everything that was seen of a history."""

    kafka: SimKafka
    network: Network
    lives: list[Life] = field(default_factory=list)
    accepted: set[str] = field(default_factory=set)
    """Ids of events that were answered with 202."""
    losses: list[Loss] = field(default_factory=list)
    broken: list[Broken] = field(default_factory=list)
    """What was found while the history went on."""
    _known: list[Stored | None] = field(default_factory=list)
    """What was ever stored, as far as it was looked at; None for what is not an event."""
    _stored_at: dict[str, float] = field(default_factory=dict)
    """When each event was stored, by its id."""

    # --- while it goes on ----------------------------------------------------------------------------------------

    def loss(self, route: str, partition: int, first: int, last: int) -> None:
        """A loss is reported: what it names must be gone, where it was still to be delivered."""
        loss = Loss(route, partition, first, last)
        self.losses.append(loss)
        life = next((one for one in self.lives if one.uid == route), None)
        if life is None:
            return
        ended = self._ended(life)
        for event in self.stored():
            wanted = loss.holds(event) and event.ident not in ended and self._verdicts(life, event) == {True}
            if wanted and not self._is_removed(event):
                self.broken.append(Broken(FALSE_LOSS, f"{life.name} is reported to have lost {_named(event)}"))

    def _is_removed(self, event: Stored) -> bool:
        return self.kafka.partition(topics.EVENTS, event.partition).first > event.offset

    def shut_out(self, partition: int, generation: int, fence: int, *, at_work: bool) -> None:
        """The dispatcher leaves out a generation because of a fence; `at_work`: routing goes by it now.

        It may do so where the fence cannot be seen any more. The pipeline ends then, and routes all of it again.
        """
        if at_work and _holds_fence(self.kafka.partition(topics.MATCHED, partition), fence):
            what = f"generation {generation} is live, and shut out of partition {partition} by the fence of {fence}"
            self.broken.append(Broken(SHUT_OUT, what))

    # --- what was stored, wanted and done ------------------------------------------------------------------------

    def stored(self) -> list[Stored]:
        """All events that were ever stored."""
        for number, record, at in self.kafka.archive[len(self._known) :]:
            found = dict(record.headers or ())
            ident, kind, key = (
                (found.get(kafka_binding.PREFIX + name) or b"").decode() for name in ("id", "type", "partitionkey")
            )
            event = Stored(ident, kind, key, number, record.offset, self.network.sent.get(ident, at), at)
            self._known.append(event if headers.TARGET in found else None)
            self._stored_at.setdefault(ident, at)
        return [event for event in self._known if event is not None]

    def _verdicts(self, life: Life, event: Stored) -> set[bool]:
        """Whether the route wants the event, by every filter that may count for it."""
        if life.replays:
            certain = event.stored < life.asked and not self._is_removed(event)
            return {event.type in rule.types for rule in life.rules} | (set() if certain else {False})
        ready = [n for n, rule in enumerate(life.rules) if rule.ready is not None and rule.ready <= event.sent]
        verdicts = {event.type in rule.types for rule in life.rules[max(ready, default=0) :]}
        return verdicts if ready else verdicts | {False}

    def _ended(self, life: Life) -> set[str]:
        """Events that the route is done with: taken, or given up as its policy says."""
        taken, given_up = self._outcomes(life.subscriber, life.retry)
        if not life.dead_letter:
            return taken | given_up
        at_sink, dropped = self._outcomes(life.dead_letter, life.retry)
        return taken | (given_up & (at_sink | dropped))

    def _outcomes(self, subscriber: str, retry: int) -> tuple[set[str], set[str]]:
        """Events that a subscriber took, and those of which it had all attempts."""
        taken, refused, failed = set(), set(), Counter[str]()
        for attempt in self.network.attempts:
            if attempt.subscriber == subscriber:
                if self._taken_at(attempt) is not None:
                    taken.add(attempt.event)
                elif attempt.answered == 400:
                    refused.add(attempt.event)
                elif attempt.noticed:
                    failed[attempt.event] += 1
        return taken, refused | {ident for ident, count in failed.items() if count > retry}

    def _taken_at(self, attempt: Attempt) -> float | None:
        """When the event counted as taken: when it was answered well, and the reply was stored, if there was one."""
        if attempt.answered != 200:
            return None
        return self._stored_at.get(attempt.reply) if attempt.reply else attempt.ended

    def waiting(self) -> Iterator[str]:
        """Events that routes want for certain and did not get, and that nothing excuses."""
        for life in self.lives:
            if life.deleted:
                continue
            ended = self._ended(life)
            losses = [loss for loss in self.losses if loss.route == life.uid]
            for event in self.stored():
                done = event.ident in ended or any(loss.holds(event) for loss in losses)
                if not done and self._verdicts(life, event) == {True}:
                    yield f"{life.name} did not get {_named(event)}"

    # --- at the end ----------------------------------------------------------------------------------------------

    def verdict(self) -> list[Broken]:
        """Every promise that was broken."""
        stored, attempts = defaultdict[str, list[Stored]](list), defaultdict[str, list[Attempt]](list)
        for event in self.stored():
            stored[event.ident].append(event)
        for attempt in sorted(self.network.attempts, key=lambda one: one.began):
            attempts[attempt.subscriber].append(attempt)
        found = [*self.broken]
        found += [
            Broken(LOST, f"{ident} was accepted, and is not stored") for ident in sorted(self.accepted - stored.keys())
        ]
        found += [Broken(LOST, what) for what in self.waiting()]
        for life in self.lives:
            mine = attempts[life.subscriber]
            found += [Broken(STRANGER, what) for what in self._strangers(life, mine, stored)]
            found += [Broken(AGAIN, what) for what in self._repeats(life, mine, stored)]
            if life.ordered:
                found += [Broken(ORDER, what) for what in self._out_of_order(life, mine, stored)]
        return found

    def _strangers(self, life: Life, mine: list[Attempt], stored: dict[str, list[Stored]]) -> Iterator[str]:
        for ident in dict.fromkeys(attempt.event for attempt in mine):
            events = stored[ident]
            if not any(True in self._verdicts(life, event) for event in events):
                yield f"{life.name} got {ident}"
            elif not life.past and all(event.stored < life.asked for event in events):
                yield f"{life.name} got {ident}, which came before it was asked for"

    def _repeats(self, life: Life, mine: list[Attempt], stored: dict[str, list[Stored]]) -> Iterator[str]:
        """A delivery that ended well is repeated only by a task that has read older cursors, or that was replaced and
        does not know yet."""
        taken: dict[str, float] = {}
        for attempt in mine:
            if len(stored[attempt.event]) != 1:
                continue
            loads = self.kafka.loads[f"penstock-cursors-{stored[attempt.event][0].partition}"]
            replaced = any(load.process > attempt.task_began and load.at <= attempt.ended for load in loads)
            ended = taken.get(attempt.event)
            if ended is not None and not replaced:
                since = [load for load in loads if ended < load.at <= attempt.began]
                if not any(load.written <= ended + FLUSHED_SECONDS for load in since):
                    yield f"{life.name} got {attempt.event} again at {attempt.began:.2f}; it took it at {ended:.2f}"
            taken_at = self._taken_at(attempt)
            if taken_at is not None and not replaced:  # what a task does that was replaced is not written down
                taken[attempt.event] = taken_at

    def _out_of_order(self, life: Life, mine: list[Attempt], stored: dict[str, list[Stored]]) -> Iterator[str]:
        first: dict[str, float] = {}
        by_key = defaultdict[tuple[str, int], list[Stored]](list)
        for attempt in mine:
            if attempt.event in first:
                continue
            first[attempt.event] = attempt.began
            event = stored[attempt.event][0]
            # One that only some of the route's filters want may be routed anew, by another of them.
            if len(stored[event.ident]) == 1 and event.key and self._verdicts(life, event) == {True}:
                by_key[event.key, event.partition].append(event)
        for events in by_key.values():
            events.sort(key=lambda event: event.offset)
            for before, after in itertools.pairwise(events):
                if first[after.ident] < first[before.ident]:
                    yield f"{life.name} got {after.ident} before {before.ident}, of the same key"
                elif first[after.ident] < _let_go(life, mine, before.ident):
                    yield f"{life.name} got {after.ident} while {before.ident}, of the same key, was under way"


def _let_go(life: Life, mine: list[Attempt], ident: str) -> float:
    """When the first delivery of an event was over: it was taken, or had its attempts."""
    count = 0
    for attempt in mine:
        if attempt.event == ident:
            count += 1
            if attempt.answered in (200, 400) or count > life.retry:
                return attempt.ended
    return 0.0


def _named(event: Stored) -> str:
    return f"{event.ident} (type {event.type}, offset {event.offset} of partition {event.partition})"


def _holds_fence(partition: Partition, generation: int) -> bool:
    wanted = (headers.GENERATION, str(generation).encode())
    records = (dict(record.headers or ()) for record in partition.read(partition.first))
    return any(headers.FENCE in found and wanted in found.items() for found in records)
