"""The report of `penstock verify`, as text and JSON. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from penstock.runtime.times import rfc3339, rfc3339_milli
from penstock.verification.fates import FATES, MISSING, Fate


@dataclass(frozen=True)
class RouteVerdict:
    """The fates of the events of a route."""

    kind: str
    namespace: str
    name: str
    accepted: int
    """Events that its Broker or Channel accepted."""
    counts: Mapping[Fate, int]
    unjudged: int = 0
    """Events that its filter matches, of before it can be judged."""
    remark: str = ""
    """From when on it is judged, where that is not the whole time, and why."""
    paused: bool = False

    @property
    def due(self) -> int:
        """Events that it was to get."""
        return sum(self.counts.values())

    @property
    def missing(self) -> int:
        """Of these, how many did not arrive and never will."""
        return sum(self.counts.get(fate, 0) for fate in MISSING)

    @property
    def label(self) -> str:
        """`trigger/orders`."""
        namespace = "" if self.namespace == "default" else f" ({self.namespace})"
        return f"{self.kind.lower()}/{self.name}{namespace}"

    def as_data(self) -> dict[str, Any]:
        """For programs."""
        return {
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "accepted": self.accepted,
            "due": self.due,
            **{fate: self.counts.get(fate, 0) for fate in FATES},
            "unjudged": self.unjudged,
            "remark": self.remark,
            "paused": self.paused,
        }


class KeptEvent(NamedTuple):
    """An event, as far as people need it to find it."""

    arrival: datetime
    id: str
    source: str
    type: str


@dataclass(frozen=True)
class MissingEvent:
    """An event that did not arrive at a route, and never will."""

    route: RouteVerdict
    fate: Fate
    partition: int
    offset: int
    event: KeptEvent | None = None
    """None where the event itself is gone as well."""

    def as_data(self) -> dict[str, Any]:
        """For programs."""
        event = self.event
        return {
            "kind": self.route.kind,
            "namespace": self.route.namespace,
            "name": self.route.name,
            "fate": self.fate,
            "id": event.id if event else None,
            "source": event.source if event else None,
            "type": event.type if event else None,
            "arrival": rfc3339_milli(event.arrival.timestamp()) if event else None,
            "partition": self.partition,
            "offset": self.offset,
        }


@dataclass(frozen=True)
class VerifyReport:
    """What was found out about all of them."""

    since: datetime
    until: datetime
    accepted: int
    """Events that the Brokers and Channels of these routes accepted."""
    routes: Sequence[RouteVerdict]
    missing: Sequence[MissingEvent] = ()
    """Some of those that did not arrive and never will."""
    remarks: Sequence[str] = field(default_factory=tuple)
    """What limits all that was found out."""

    @property
    def missing_count(self) -> int:
        """How many did not arrive and never will, each counted for every route."""
        return sum(route.missing for route in self.routes)

    @property
    def summary(self) -> str:
        """In a sentence."""
        due = sum(route.due for route in self.routes)
        under_way = sum(route.counts.get(fate, 0) for route in self.routes for fate in ("waiting", "retrying"))
        given_up = sum(route.counts.get(fate, 0) for route in self.routes for fate in ("dead-lettered", "dropped"))
        parts = [f"{due - under_way - given_up - self.missing_count:,} delivered"]
        parts += [f"{given_up:,} given up by their routes' policy"] if given_up else []
        parts += [f"{under_way:,} still to come"] if under_way else []
        lost = f"{self.missing_count:,} LOST" if self.missing_count else "none lost"
        span = f"from {rfc3339(self.since)} to {rfc3339(self.until)}"
        if not self.routes:
            return f"there is no route to verify, {span}"
        return (
            f"{_counted(self.accepted, 'event')} accepted {span}, {_counted(due, 'delivery', 'deliveries')} due to "
            f"{_counted(len(self.routes), 'route')}: {', '.join(parts)}, {lost}"
        )

    def as_data(self) -> dict[str, Any]:
        """For programs."""
        return {
            "since": rfc3339(self.since),
            "until": rfc3339(self.until),
            "accepted": self.accepted,
            "lost": self.missing_count,
            "routes": [route.as_data() for route in self.routes],
            "missing": [one.as_data() for one in self.missing],
            "remarks": list(self.remarks),
            "summary": self.summary,
        }


def _counted(number: int, one: str, several: str = "") -> str:
    return f"{number:,} {one if number == 1 else several or one + 's'}"


def moment_of(microseconds: int) -> datetime:
    """A time since 1970."""
    return datetime.fromtimestamp(microseconds / 1_000_000, UTC)
