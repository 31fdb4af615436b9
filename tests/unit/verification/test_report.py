"""The whole question over tables that were written and a Kafka that holds lists: every fate, and what limits it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock.contract import reports
from penstock.contract.reports import Ack, Loss, Served
from penstock.contract.routes import Record, Replay, Route, Target, Version, encode, key_of
from penstock.dispatcher.cursors import cursor_store
from penstock.dispatcher.cursors.cursor import CursorRecord, Outstanding
from penstock.dispatcher.cursors.partition import TailPosition
from penstock.history.schema.columns import ATTEMPTS, EVENTS
from penstock.kafka.ranges import LogRecord
from penstock.runtime.errors import UserError
from penstock.settings import Settings
from penstock.verification.report import VerifyReport
from penstock.verification.run import Question, verify
from tests.written import NOON, KeptRecords, NoKafka, attempt, event, write

HOUR = timedelta(hours=1)
NOON_UTC = datetime.fromtimestamp(NOON / 1000, UTC)
QUESTION = Question(NOON_UTC - HOUR, NOON_UTC + HOUR)

ROUTE = Route("r1", "Trigger", "default", "orders", "t", generation=1, start=(0,))

Verify = Callable[..., VerifyReport]


@pytest.fixture
def ask(tmp_path: Path) -> Verify:
    """`verify()` over the tables of `tmp_path/history` and a Kafka that holds these records."""

    def asked(
        kafka: KeptRecords | None = None,
        question: Question = QUESTION,
        in_force: Callable[[Route], datetime | None] = lambda route: None,
        pause: Callable[[float], None] = lambda seconds: None,
        **topics: Sequence[LogRecord],
    ) -> VerifyReport:
        topics = {"routes": routes(ROUTE), "reports": served(), **topics}
        reader = kafka or KeptRecords(**topics)
        return verify(Settings(data_dir=tmp_path), question, in_force, connect=lambda _: reader, pause=pause)

    return asked


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "history"


def table(pairs: Iterable[tuple[str, bytes | None]], at_ms: int = NOON - 10_000) -> list[LogRecord]:
    """Records of a compacted topic, a second from each other."""
    return [LogRecord(0, n, at_ms + n * 1000, key.encode(), (), value) for n, (key, value) in enumerate(pairs)]


def routes(*records: Record) -> list[LogRecord]:
    """`penstock.routes`, complete after the last record."""
    every = [Target("t", "Broker", "default", "shop"), *records]
    count = len({record.uid for record in records if isinstance(record, Route)})
    return table((key_of(one), encode(one)) for one in [*every, Version(len(every), 1, count)])


def served(uid: str = "r1", owed: tuple[int, ...] | None = None) -> list[LogRecord]:
    return reported(Served(uid, (0,), owed))


def reported(*every: reports.Report) -> list[LogRecord]:
    return table((reports.key_of(one), reports.encode(one)) for one in every)


def cursors(
    next_offset: int,
    outstanding: Sequence[int] = (),
    *,
    detached: bool = False,
    tail: TailPosition | None = None,
    route: str = "r1",
) -> list[LogRecord]:
    """A route that has taken everything before `next_offset`; the tail has read all that was matched."""
    begun = tuple(Outstanding(origin, origin, NOON) for origin in outstanding)
    cursor = CursorRecord(next_offset, 0 if detached else None, begun)
    place = tail if tail is not None else TailPosition(100, 100)
    return table(
        [
            (cursor_store.cursor_key(route, 0), msgspec.json.encode(cursor)),
            (cursor_store.payload_key(route, 0, 1), b"\xff"),
            (cursor_store.tail_key(0), msgspec.json.encode(place)),
        ]
    )


MATCHED = [LogRecord(0, 99, NOON, None, (), None)]
"""The last record of `penstock.matched`."""


def counts(report: VerifyReport) -> dict[str, int]:
    [route] = report.routes
    return {fate: count for fate, count in route.counts.items() if count}


def test_each_fate_is_told_from_the_others(ask: Verify) -> None:
    names = ("delivered", "replied", "dead", "dropped", "redriven", "retrying", "begun", "expired", "lost", "paused")
    events = [event(number, name, after_ms=number) for number, name in enumerate(names)]
    known = dict(zip(names, events, strict=True))
    tries = [
        attempt(0, known["delivered"], "retry"),
        attempt(1, known["delivered"], attempt=2),
        attempt(2, known["replied"], "replied"),
        attempt(3, known["replied"], stage="reply"),
        attempt(4, known["dead"], "deadletter"),
        attempt(5, known["dead"], stage="deadletter"),
        attempt(6, known["dropped"], "dropped"),
        attempt(7, known["redriven"], "dropped"),
        attempt(8, known["redriven"], route="replay"),
        attempt(9, known["retrying"], "retry"),
        attempt(10, known["lost"], route="other"),
    ]
    redrive = Route("replay", "Replay", "default", "again", "t", replay=Replay("Trigger", given_up_by="r1"))
    report = ask(
        events=events,
        attempts=tries,
        routes=routes(ROUTE, redrive),
        reports=reported(Served("r1", (0,)), Loss("r1", 0, 7, 7, 0.0)),
        cursors=cursors(9, [5, 6], detached=True),
        matched=MATCHED,
    )
    assert counts(report) == {
        "delivered": 2,
        "dead-lettered": 1,
        "dropped": 1,
        "redriven": 1,
        "retrying": 1,
        "waiting": 2,
        "expired": 1,
        "lost": 1,
    }
    assert report.accepted == len(names)
    assert [(one.fate, one.event.id if one.event else None, one.offset) for one in report.missing] == [
        ("lost", "lost", 8),
        ("expired", "expired", 7),
    ]
    assert report.summary == (
        "10 events accepted from 2026-11-17T11:00:00Z to 2026-11-17T13:00:00Z, 10 deliveries due to 1 route: "
        "3 delivered, 2 given up by their routes' policy, 3 still to come, 2 LOST"
    )


@pytest.mark.parametrize("results", [("replied",), ("deadletter",), ("retry",)])
def test_what_has_begun_and_has_no_end_is_lost_once_no_cursor_knows_it(ask: Verify, results: tuple[str, ...]) -> None:
    """The record of a stage's end is missing, and so is the delivery."""
    one = event(0, "a")
    tries = [attempt(number, one, result) for number, result in enumerate(results)]
    under_way = ask(events=[one], attempts=tries, cursors=cursors(1, [0]), matched=MATCHED)
    assert counts(under_way) == {"retrying": 1}
    assert counts(ask(events=[one], attempts=tries, cursors=cursors(1), matched=MATCHED)) == {"lost": 1}


def test_a_repeat_after_a_delivery_undoes_nothing(ask: Verify) -> None:
    one = event(0, "a")
    tries = [attempt(0, one), attempt(1, one, "dropped"), attempt(2, one, "retry")]
    assert counts(ask(events=[one], attempts=tries, cursors=cursors(1), matched=MATCHED)) == {"delivered": 1}


@pytest.mark.parametrize(
    ("stands", "tail", "owed", "fate"),
    [
        ("behind the event", TailPosition(100, 50), None, "lost"),
        ("before the event", TailPosition(100, 50), None, "lost"),
        ("before the event", TailPosition(100, 7), None, "waiting"),
        ("before the event", TailPosition(99, 50), None, "waiting"),
        ("before the event", TailPosition(100, 50), (7,), "waiting"),
        ("before the event", TailPosition(100, 50), (8,), "lost"),
        ("on its own, before the event", TailPosition(100, 50), None, "waiting"),
        ("on its own, behind the event", TailPosition(100, 50), None, "lost"),
    ],
)
def test_what_was_never_tried_waits_or_is_lost_by_where_the_route_stands(
    ask: Verify, stands: str, tail: TailPosition, owed: tuple[int, ...] | None, fate: str
) -> None:
    """The event has the offset 7. A tail that has not read what was matched, or has come no further than the event, and
    a router that owes it, may all bring it still."""
    held = cursors(8 if "behind" in stands else 3, detached="own" in stands, tail=tail)
    report = ask(events=[event(7, "a")], cursors=held, matched=MATCHED, reports=served(owed=owed))
    assert counts(report) == {fate: 1}


def test_a_route_that_has_taken_nothing_yet_waits_until_the_tail_has_passed(ask: Verify) -> None:
    for origin, fate in ((7, "waiting"), (8, "lost")):
        held = cursors(0, route="other", tail=TailPosition(100, origin))
        assert counts(ask(events=[event(7, "a")], cursors=held, matched=MATCHED)) == {fate: 1}
    assert counts(ask(events=[event(7, "a")], matched=MATCHED)) == {"waiting": 1}
    held = cursors(0, route="other")
    assert counts(ask(events=[event(7, "a")], cursors=held, matched=MATCHED, reports=served("other"))) == {"waiting": 1}


def test_what_looks_lost_is_looked_at_again(ask: Verify) -> None:
    """Kafka shows the partitions of one transaction one after the other."""
    one, other = event(0, "a"), event(1, "b")
    kafka = KeptRecords(
        routes=routes(ROUTE),
        reports=served(),
        events=[one, other],
        attempts=[attempt(0, one)],
        cursors=cursors(2),
        matched=MATCHED,
    )

    def pause(_: float) -> None:
        kafka.topics["penstock.attempts"].append(attempt(1, other))

    assert counts(ask(kafka, pause=pause)) == {"delivered": 2}


def test_tables_and_kafka_are_taken_together(ask: Verify, root: Path) -> None:
    events = [event(number, f"e{number}", after_ms=number) for number in range(6)]
    tries = [attempt(number, one) for number, one in enumerate(events) if number != 2]
    write(root, EVENTS, events[:4])
    write(root, ATTEMPTS, tries[:2])
    report = ask(events=events[2:], attempts=tries[1:], cursors=cursors(6), matched=MATCHED)
    assert counts(report) == {"delivered": 5, "lost": 1}
    assert report.accepted == 6
    [lost] = report.missing
    assert lost.event is not None
    assert (lost.event.id, lost.event.source, lost.event.type, lost.offset) == ("e2", "/shop", "order", 2)
    assert not report.remarks


def test_without_tables_it_is_said_that_only_kafka_was_looked_at(ask: Verify) -> None:
    one = event(0, "a")
    report = ask(events=[one], attempts=[attempt(0, one)], cursors=cursors(1), matched=MATCHED)
    assert report.remarks == ("there is no history: only records in Kafka were checked",)


def test_what_came_before_the_oldest_attempt_that_is_kept_is_not_judged(ask: Verify) -> None:
    """Kafka removes attempts earlier than events, where there is no table."""
    old, new = event(0, "old", after_ms=-60_000), event(1, "new", after_ms=60_000)
    tries = [attempt(10, event(9, "x")), attempt(11, new)]
    report = ask(events=[old, new], attempts=tries, cursors=cursors(2), matched=MATCHED)
    assert counts(report) == {"delivered": 1}
    assert report.routes[0].unjudged == 1
    assert "events before 2026-11-17T12:00:00Z are not verified in every partition" in report.remarks[-1]


def test_a_gap_between_the_table_and_kafka_is_not_taken_for_losses(ask: Verify, root: Path) -> None:
    """The history was off for a while, and Kafka has forgotten what came then."""
    old, new = event(0, "old", after_ms=-60_000), event(5, "new", after_ms=60_000)
    write(root, EVENTS, [old, event(1, "gap", after_ms=-30_000)])
    write(root, ATTEMPTS, [attempt(0, old)])
    report = ask(
        events=[new], attempts=[attempt(8, event(4, "x")), attempt(9, new)], cursors=cursors(6), matched=MATCHED
    )
    assert counts(report) == {"delivered": 1}
    assert report.routes[0].unjudged == 2


def test_events_outside_the_window_and_before_the_route_do_not_count(ask: Verify, root: Path) -> None:
    events = [event(n, f"e{n}", after_ms=ms) for n, ms in enumerate((-7_200_000, 0, 1000, 2000, 7_200_000))]
    write(root, EVENTS, events[:2])
    route = msgspec.structs.replace(ROUTE, start=(2,))
    report = ask(events=events, routes=routes(route), cursors=cursors(5), matched=MATCHED)
    assert counts(report) == {"lost": 2}
    assert report.accepted == 3


@pytest.mark.parametrize(
    "since",
    [
        datetime.min.replace(tzinfo=UTC),
        datetime.fromisoformat("2026-11-18T01:30:00+14:00"),
        datetime.fromisoformat("2026-11-16T23:30:00-12:00"),
    ],
)
def test_a_window_may_begin_anywhere_and_in_any_zone(ask: Verify, root: Path, since: datetime) -> None:
    """The last two are half past eleven of the 17th in UTC, whatever day is written."""
    one = event(0, "a")
    write(root, EVENTS, [one])
    write(root, ATTEMPTS, [attempt(0, one)])
    question = Question(since, NOON_UTC + HOUR)
    assert counts(ask(question=question, cursors=cursors(1), matched=MATCHED)) == {"delivered": 1}


def test_filters_on_attributes_extensions_and_data_are_evaluated(ask: Verify, root: Path) -> None:
    plain = [event(0, "a", kind="order"), event(1, "b", kind="other")]
    write(root, EVENTS, plain)
    later = event(2, "c", data=b'{"a": 2}')
    later = later._replace(headers=[*later.headers, ("content-type", b"application/json")])
    wanted: dict[str, tuple[dict[str, Any], list[str]]] = {
        "exact": ({"exact": {"type": "order"}}, ["a", "c"]),
        "extension": ({"prefix": {"region": "e"}}, ["a", "b", "c"]),
        "cesql": ({"cesql": "id = 'b'"}, ["b"]),
        "data": ({"data": {"a": 2}}, ["c"]),
    }
    every = [
        Route(name, "Trigger", "default", name, "t", generation=1, filters=[filters])
        for name, (filters, _) in wanted.items()
    ]
    held = [record for name in wanted for record in cursors(3, route=name)]
    report = ask(
        events=[*plain, later],
        routes=routes(*every),
        reports=reported(*(Served(name, (0,)) for name in wanted)),
        cursors=held,
        matched=MATCHED,
    )
    missing: dict[str, list[str]] = {name: [] for name in wanted}
    for one in report.missing:
        assert one.event is not None
        missing[one.route.name].append(one.event.id)
    assert missing == {name: ids for name, (_, ids) in wanted.items()}


def test_no_more_missing_events_are_named_than_asked_for(ask: Verify) -> None:
    events = [event(number, f"e{number}") for number in range(5)]
    report = ask(
        question=Question(QUESTION.since, QUESTION.until, limit=2), events=events, cursors=cursors(5), matched=MATCHED
    )
    assert len(report.missing) == 2
    assert report.missing_count == 5
    assert json.loads(json.dumps(report.as_data()))["lost"] == 5


def test_an_event_that_is_gone_itself_is_named_by_its_place(ask: Verify) -> None:
    """Between two questions to Kafka retention may remove it."""
    kafka = KeptRecords(
        routes=routes(ROUTE), reports=served(), events=[event(0, "a")], cursors=cursors(1), matched=MATCHED
    )

    def pause(_: float) -> None:
        kafka.topics["penstock.events"].clear()

    [lost] = ask(kafka, pause=pause).missing
    assert (lost.event, lost.partition, lost.offset) == (None, 0, 0)
    assert lost.as_data()["id"] is None


def test_a_changed_filter_is_judged_from_when_it_was_in_force(ask: Verify) -> None:
    before = msgspec.structs.replace(ROUTE, filters=[{"exact": {"type": "other"}}])
    after = msgspec.structs.replace(ROUTE, generation=2, filters=[{"exact": {"type": "order"}}])
    published = routes(before, after)
    [changed] = [record.at_ms for record in published[2:3]]
    events = [event(0, "early", after_ms=changed - NOON), event(1, "late", after_ms=changed - NOON + 9000)]
    acks = [Ack("router", "a", version, 0.0) for version in (2, 2, 2, 3)]
    seen = reported(Served("r1", (0,)), Ack("ingress", "b", 3, 0.0), *acks)
    in_force = datetime.fromtimestamp(changed / 1000 + 5, UTC)
    kafka = {"events": events, "routes": published, "cursors": cursors(2), "matched": MATCHED}

    def shown(**others: Any) -> tuple[dict[str, int], int]:
        report = ask(**{**kafka, **others})
        return counts(report), report.routes[0].unjudged

    assert shown(in_force=lambda route: in_force) == ({"lost": 1}, 1), "its status says when"
    assert shown(reports=seen) == ({"lost": 1}, 1), "the router's acknowledgement says when"
    stale = datetime.fromtimestamp(changed / 1000 - 5, UTC)
    report = ask(**kafka, in_force=lambda route: stale)
    assert not report.routes, "a status from before the change is not about it"
    assert "is not in force yet" in report.remarks[0]


def test_a_route_that_was_changed_before_compaction_is_judged_from_its_record_on(ask: Verify) -> None:
    """What its filter was before is gone; a pause, too, makes a new record."""
    published = routes(msgspec.structs.replace(ROUTE, generation=3))
    events = [event(0, "early", after_ms=-60_000), event(1, "late", after_ms=60_000)]
    kafka = {"events": events, "routes": published, "cursors": cursors(2), "matched": MATCHED}
    report = ask(**kafka, in_force=lambda route: NOON_UTC)
    assert counts(report) == {"lost": 1}
    assert report.routes[0].remark.startswith("judged from 2026-11-17T12:00:01Z on")


def test_routes_are_chosen_by_name_and_namespace(ask: Verify) -> None:
    other = Route("r2", "Subscription", "else", "mine", "t", generation=5)
    published = routes(ROUTE, other)
    question = Question(QUESTION.since, QUESTION.until, names=[("Subscription", "mine")], namespace="else")
    assert [route.label for route in ask(routes=published, question=question).routes] == ["subscription/mine (else)"]
    assert [route.label for route in ask(routes=published).routes] == ["trigger/orders", "subscription/mine (else)"]
    wrong = Question(QUESTION.since, QUESTION.until, names=[("Trigger", "mine")], namespace="else")
    with pytest.raises(UserError, match="There is no route of Trigger mine in the namespace else") as refused:
        ask(routes=published, question=wrong)
    assert refused.value.exit_code == 2


def test_without_kafka_nothing_can_be_said(ask: Verify) -> None:
    with pytest.raises(UserError, match=r"Kafka at .* is unreachable") as refused:
        ask(NoKafka())
    assert refused.value.exit_code == 2
