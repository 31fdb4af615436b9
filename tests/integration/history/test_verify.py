"""Every event accounted for over a real Kafka and real tables: an event whose attempt was never written is lost."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import msgspec
from confluent_kafka import KafkaError, Message, Producer

from penstock.contract import attempts, reports
from penstock.contract.attempts import AttemptRecord
from penstock.contract.reports import Served
from penstock.contract.routes import Record, Route, Target, Version, encode, key_of
from penstock.dispatcher.cursors import cursor_store
from penstock.dispatcher.cursors.cursor import CursorRecord, Outstanding
from penstock.dispatcher.cursors.partition import TailPosition
from penstock.engine.history.writer import HistoryWriter, by_arrow
from penstock.settings import Settings
from penstock.verification.report import VerifyReport
from penstock.verification.run import Question, verify
from tests.running import kafka_access

EVENTS = 30
FILTERS = [{"exact": {"type": "order"}}]


class Installation:
    """What control plane, ingress, router and dispatcher write, of one Trigger and in one partition."""

    def __init__(self, settings: Settings) -> None:
        self._producer = Producer(kafka_access(settings))
        self.begun = datetime.now(UTC) - timedelta(seconds=1)
        target, self.route, self.name = (f"{kind}-{uuid.uuid4()}" for kind in ("target", "route", "orders"))
        self._target = target
        trigger = Route(self.route, "Trigger", "default", self.name, target, generation=1, filters=FILTERS)
        records: list[Record] = [
            Target(target, "Broker", "default", "default"),
            trigger,
            Version(int(time.time()), 1, 1),
        ]
        self._write("penstock.routes", [(key_of(one), encode(one)) for one in records])
        served = Served(self.route, ())
        self._write("penstock.reports", [(reports.key_of(served), reports.encode(served))])

    def accept(self, idents: Iterable[str], kind: str = "order") -> dict[str, int]:
        """Events as the ingress stores them; their offsets by id."""
        names = list(idents)
        headers = {"ce_source": "/shop", "ce_type": kind, "ce_specversion": "1.0", "penstock_target": self._target}
        places = [self._write("penstock.events", [("", b"{}")], {**headers, "ce_id": name})[0] for name in names]
        return dict(zip(names, places, strict=True))

    def deliver(self, events: dict[str, int]) -> None:
        """Their attempts."""
        records = [
            AttemptRecord(
                at=time.time(),
                route=self.route,
                partition=0,
                origin=offset,
                id=ident,
                source="/shop",
                type="order",
                stage="subscriber",
                attempt=1,
                destination="http://sink/",
                result="delivered",
                latency=0.01,
                kind="Trigger",
                namespace="default",
                name=self.name,
            )
            for ident, offset in events.items()
        ]
        self._write("penstock.attempts", [(self.route, attempts.encode(one)) for one in records])

    def stand(self, next_offset: int, outstanding: Iterable[int] = ()) -> None:
        """How far the Trigger has got; the dispatcher has read everything that was matched."""
        begun = tuple(Outstanding(origin, 0, 0) for origin in outstanding)
        cursor = msgspec.json.encode(CursorRecord(next_offset, None, begun))
        [matched] = self._write("penstock.matched", [("", b"")])
        tail = msgspec.json.encode(TailPosition(matched + 1, next_offset))
        self._write(
            "penstock.cursors", [(cursor_store.cursor_key(self.route, 0), cursor), (cursor_store.tail_key(0), tail)]
        )

    def _write(self, topic: str, pairs: list[tuple[str, bytes]], headers: dict[str, str] | None = None) -> list[int]:
        offsets: list[int] = []

        def written(error: KafkaError | None, message: Message) -> None:
            assert error is None
            offsets.append(message.offset() or 0)

        given: list[tuple[str, str | bytes | None]] = [
            (name, value.encode()) for name, value in (headers or {}).items()
        ]
        for key, value in pairs:
            self._producer.produce(topic, value, key or None, 0, headers=given, on_delivery=written)
        assert self._producer.flush(60) == 0
        return offsets


def ask(settings: Settings, here: Installation) -> VerifyReport:
    question = Question(here.begun, datetime.now(UTC) + timedelta(seconds=1), [("Trigger", here.name)])
    return verify(settings, question, lambda route: None, pause=lambda seconds: None)


def test_an_event_whose_attempt_was_never_written_is_lost(settings: Settings) -> None:
    """Half of everything is in the tables, and half in Kafka only; an event of each is missing."""
    here = Installation(settings)
    early = here.accept(f"early-{number}" for number in range(EVENTS))
    here.accept([f"other-{number}" for number in range(EVENTS)], kind="other")
    here.deliver({ident: offset for ident, offset in early.items() if ident != "early-7"})
    assert HistoryWriter(settings, by_arrow(settings)).write() > 0
    late = here.accept(f"late-{number}" for number in range(EVENTS))
    here.deliver({ident: offset for ident, offset in late.items() if ident not in {"late-3", "late-4"}})
    here.stand(max(late.values()) + 1, outstanding=[late["late-4"]])
    report = ask(settings, here)
    [route] = report.routes
    assert route.counts == {"delivered": 2 * EVENTS - 3, "waiting": 1, "lost": 2}
    assert report.accepted == 3 * EVENTS
    found = {one.event.id: one.offset for one in report.missing if one.event is not None}
    assert found == {"early-7": early["early-7"], "late-3": late["late-3"]}


def test_what_was_lost_no_more_is_not_reported(settings: Settings) -> None:
    """The same without any table: Kafka alone answers, before and after the missing attempt is there."""
    here = Installation(settings)
    events = here.accept(f"event-{number}" for number in range(EVENTS))
    here.deliver({ident: offset for ident, offset in events.items() if ident != "event-0"})
    here.stand(max(events.values()) + 1)
    assert ask(settings, here).missing_count == 1
    here.deliver({"event-0": events["event-0"]})
    report = ask(settings, here)
    assert report.routes[0].counts == {"delivered": EVENTS}
    assert "there is no history: only records in Kafka were checked" in report.remarks
