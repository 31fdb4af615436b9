"""What is promised, checked against the books. Pure: books in, findings out.

- Every event answered with 202 is taken, at least once, by every subscriber whose route it matches.
- No subscriber is offered an event that its route never matched.
- On a route with `ordering: key`, no event of a key is offered before the one before it was taken for the first time.
  Repeats of either may come later: delivery is at least once.

A route may change meanwhile. Its history is a list of eras, one per filter. An event must arrive if an era with its
type was in force before it was sent and held until after it was accepted and routed. It may arrive if its type is in
any era that was not over before it was sent, for what counts is the filter at the moment of routing.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from dataclasses import dataclass, field

from tools.chaos.books import NEVER, Arrivals, Books, Sent
from tools.chaos.events import KEYED_SENDERS, Id, answer_to, id_of, of_key, type_of, type_of_id


@dataclass
class Era:
    """One filter of a route. Moments are monotonic seconds."""

    types: frozenset[str]
    requested: float = 0.0
    """Right before it was asked for: nothing can have followed it earlier."""
    in_force: float = 0.0
    """When the API said so; NEVER until then."""
    settled: float = NEVER
    """Events accepted until then had arrived before the era was ended."""
    replaced: float = NEVER
    """When its successor was in force."""


@dataclass
class Expected:
    """What a subscriber is to get."""

    name: str
    eras: list[Era]
    """From the first to the last. One is settled before the next is requested."""
    ordered: bool = False
    start: int = 0
    """No event with a lower number has to arrive."""
    end: int | None = None
    """No event from this number on has to arrive."""

    def must_take(self, kind: str, sent: float, accepted: float) -> bool:
        """Whether an accepted event has to arrive."""
        following = bisect.bisect_right(self.eras, sent, key=lambda era: era.in_force)
        if not following:
            return False
        era = self.eras[following - 1]
        return kind in era.types and accepted <= era.settled

    def may_take(self, kind: str, sent: float, accepted: float) -> bool:
        """Whether an event may arrive; `accepted` is NEVER where no 202 was seen."""
        if accepted < self.eras[0].requested:
            return False
        first = bisect.bisect_left(self.eras, sent, key=lambda era: era.replaced)
        return any(kind in self.eras[number].types for number in range(first, len(self.eras)))


@dataclass(frozen=True)
class Lost:
    """An accepted event that did not arrive."""

    subscriber: str
    id: Id


@dataclass(frozen=True)
class Stranger:
    """An event where it does not belong."""

    subscriber: str
    id: Id
    why: str


@dataclass(frozen=True)
class Misordered:
    """An event that was offered before the one before it was taken."""

    subscriber: str
    key: str
    before: Id
    """Should have been taken first."""
    after: Id


@dataclass
class Findings:
    """What the books show."""

    lost: list[Lost] = field(default_factory=list)
    strangers: list[Stranger] = field(default_factory=list)
    misordered: list[Misordered] = field(default_factory=list)
    duplicates: dict[str, int] = field(default_factory=dict)
    """By subscriber: how often an event that was sent once was taken again."""

    @property
    def broken(self) -> bool:
        """Whether a promise was."""
        return bool(self.lost or self.strangers or self.misordered)


def check(books: Books, expected: list[Expected]) -> Findings:
    """Everything there is to find."""
    findings = Findings()
    for one in expected:
        arrivals = books.at(one.name)
        findings.lost.extend(lost(books, one))
        findings.strangers.extend(strangers(books.sent, arrivals, one))
        if one.ordered:
            findings.misordered.extend(misordered(books.sent, arrivals, one))
        findings.duplicates[one.name] = duplicates(books.sent, arrivals)
    return findings


def duplicates(sent: Sent, arrivals: Arrivals) -> int:
    """How often an event was taken again that its producer has sent only once."""
    again = ((number, taken - 1) for number, _, taken in arrivals.offered() if taken > 1)
    return sum(times for number, times in again if number < len(sent.tries) and sent.tries[number] == 1)


def lost(books: Books, one: Expected) -> Iterator[Lost]:
    """Accepted events that a subscriber should have taken and has not."""
    arrivals = books.at(one.name)
    return (Lost(one.name, ident) for ident in due(books.sent, one) if not arrivals.taken(ident))


def due(sent: Sent, one: Expected, start: int = 0) -> Iterator[Id]:
    """Events and replies that must arrive at a subscriber, from the event with the number `start` on."""
    for number in sent.numbers(max(start, one.start), one.end):
        kind = type_of(number)
        if one.must_take(kind, sent.last[number], sent.accepted[number]):
            yield id_of(number)
        answer = answer_to(kind)
        if answer is not None and one.must_take(answer, sent.accepted[number], sent.accepted[number]):
            yield id_of(number, reply=True)


def strangers(sent: Sent, arrivals: Arrivals, one: Expected) -> Iterator[Stranger]:
    """What arrived at a subscriber and must not."""
    for what in arrivals.odd:
        yield Stranger(one.name, what, "is no event of this run, or was changed on its way")
    for number, reply, _ in arrivals.offered():
        ident = id_of(number, reply=reply)
        kind = type_of_id(number, reply=reply)
        if kind is None or not sent.was_sent(number):
            yield Stranger(one.name, ident, "was never sent")
        elif not one.may_take(kind, sent.first[number], sent.accepted[number] or NEVER):
            yield Stranger(one.name, ident, f"has the type {kind}, which the route did not match")


def misordered(sent: Sent, arrivals: Arrivals, one: Expected) -> Iterator[Misordered]:
    """Events of a key that were offered before their predecessor was taken."""
    for sender in range(KEYED_SENDERS):
        for reply in (False, True):
            before: Id | None = None
            for number in of_key(sender, len(sent.accepted)):
                kind = type_of_id(number, reply=reply)
                if not sent.is_accepted(number) or kind is None:
                    continue
                if not one.must_take(kind, sent.last[number], sent.accepted[number]):
                    continue
                ident = id_of(number, reply=reply)
                offered, taken = arrivals.first_attempt(ident), arrivals.first_success(ident)
                if before is not None and offered and offered < arrivals.first_success(before):
                    yield Misordered(one.name, f"key-{sender}", before, ident)
                if taken:  # one that is missing is reported as lost
                    before = ident
