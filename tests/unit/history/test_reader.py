"""Questions to tables that were written, and to what Kafka has beyond them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from penstock.history.reader.history import History
from penstock.history.reader.questions import DeadLetterFilter, EventFilter, NamedRoute, Position
from penstock.history.schema.columns import ATTEMPTS, EVENTS, HistoryProblem
from penstock.settings import Settings
from tests.written import KeptRecords, NoKafka, attempt, event, write

NOON = datetime(2026, 11, 17, 12, tzinfo=UTC)
Ask = Callable[..., History]


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    """The history of `tmp_path/history` and of a Kafka that holds these records."""
    settings = Settings(data_dir=tmp_path, partitions=2)
    return lambda kafka=None, **topics: History(settings, lambda _: kafka or KeptRecords(**topics))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "history"


def test_table_and_kafka_meet_without_gap_or_double(ask: Ask, root: Path) -> None:
    records = [event(number, f"e{number}") for number in range(10)]
    write(root, EVENTS, records[:4])
    with ask(events=records) as history:
        found = history.sql('select "offset", id from events order by "offset"').to_pylist()
    assert [row["offset"] for row in found] == list(range(10))


def test_without_a_table_kafka_answers_alone(ask: Ask) -> None:
    with ask(events=[event(5, "e5")]) as history:
        assert history.sql("select count(*) as n from events").to_pylist() == [{"n": 1}]
        assert history.sql("select count(*) as n from attempts").to_pylist() == [{"n": 0}]


def test_without_kafka_the_table_answers_and_it_is_said(ask: Ask, root: Path) -> None:
    write(root, EVENTS, [event(0, "e0")])
    with ask(kafka=NoKafka()) as history:
        assert history.sql("select id from events").to_pylist() == [{"id": "e0"}]
        assert history.without_kafka == "nobody answers"


def test_files_that_were_removed_from_the_table_are_not_read(ask: Ask, root: Path) -> None:
    from deltalake import DeltaTable

    write(root, EVENTS, [event(0, "old", after_ms=-48 * 3600 * 1000)])
    write(root, EVENTS, [event(1, "new")])
    DeltaTable(str(root / "events")).delete("day < '2026-11-17'")
    with ask(events=[]) as history:
        assert history.sql("select id from events").to_pylist() == [{"id": "new"}]


def test_data_is_shown_as_text_where_it_is_text(ask: Ask, root: Path) -> None:
    write(root, EVENTS, [event(0, "text"), event(1, "bytes", data=b"\xff\x00"), event(2, "none", data=None)])
    with ask() as history:
        found = history.sql("select id, text from events order by id").to_pylist()
    assert found == [{"id": "bytes", "text": None}, {"id": "none", "text": None}, {"id": "text", "text": '{"a": 1}'}]


def test_events_by_time_type_and_condition(ask: Ask, root: Path) -> None:
    write(root, EVENTS, [event(0, "a"), event(1, "b", kind="other"), event(2, "c", after_ms=60_000)])
    with ask() as history:
        assert [one.id for one in history.events(EventFilter(type="order"))] == ["c", "a"]
        assert [one.id for one in history.events(EventFilter(since=NOON + timedelta(seconds=1)))] == ["c"]
        assert [one.id for one in history.events(EventFilter(until=NOON + timedelta(seconds=1), type="other"))] == ["b"]
        condition = "extensions['region'] = 'eu' and id <> 'a' -- not the first"
        assert [one.id for one in history.events(EventFilter(where=condition))] == ["c", "b"]
        assert history.events(EventFilter(id="a"))[0].extensions == {"region": "eu"}


def test_a_trace_follows_an_event_to_its_answers_and_replies(ask: Ask, root: Path) -> None:
    order = event(0, "order")
    reply = event(1, "reply", after_ms=140, span="c" * 16)
    stranger = event(2, "stranger", after_ms=140, trace="d" * 32)
    sibling = event(3, "sibling", after_ms=1)
    write(root, EVENTS, [order, reply])
    write(root, ATTEMPTS, [attempt(0, order, "retry", status=503, due=NOON.timestamp() + 1)])
    kafka = {"events": [order, reply, stranger, sibling]}
    tried = [attempt(0, order), attempt(1, order, "delivered", attempt=2, status=200), attempt(2, reply, status=202)]
    with ask(**kafka, attempts=tried) as history:
        (traced,) = history.trace("order")
    assert [(one.attempt, one.result, one.status) for one in traced.attempts] == [
        (1, "retry", 503),
        (2, "delivered", 200),
    ]
    assert traced.attempts[0].due == NOON + timedelta(seconds=1)
    assert traced.attempts[0].end - traced.attempts[0].start == timedelta(milliseconds=50)
    assert [child.event.id for child in traced.children] == ["reply"]
    assert [one.status for one in traced.children[0].attempts] == [202]


def test_a_trace_of_what_is_not_there_is_empty(ask: Ask) -> None:
    with ask(events=[event(0, "a")]) as history:
        assert history.trace("b") == []
        assert history.trace("a", source="/other") == []


def test_what_comes_later_is_seen_after_moving_on(ask: Ask, root: Path) -> None:
    write(root, EVENTS, [event(0, "e0")])
    kafka = KeptRecords(events=[event(1, "e1")])
    with ask(kafka) as history:
        assert [one.id for one in history.events(EventFilter(newest_first=False))] == ["e0", "e1"]
        kafka.topics["penstock.events"].append(event(2, "e2", after_ms=5))
        history.moved_on()
        assert [one.id for one in history.events(EventFilter(newest_first=False))] == ["e0", "e1", "e2"]


def test_dead_letters_by_route_and_reason(ask: Ask, root: Path) -> None:
    records = [event(number, f"e{number}") for number in range(4)]
    taken = attempt(0, records[0], "deadletter", status=500, reason="HTTP status 500", attempt=3)
    sink = attempt(1, records[0], "delivered", stage="deadletter", status=200)
    lost = attempt(2, records[1], "dropped", reason="no answer")
    waiting = attempt(3, records[2], "deadletter", status=500, reason="HTTP status 500", name="other", route="r2")
    fine = attempt(4, records[3])
    write(root, ATTEMPTS, [taken, sink])
    with ask(attempts=[taken, sink, lost, waiting, fine]) as history:
        every = history.deadletters(DeadLetterFilter())
        assert {(one.id, one.outcome) for one in every} == {
            ("e0", "dead-lettered"),
            ("e1", "dropped"),
            ("e2", "waiting"),
        }
        (first,) = history.deadletters(DeadLetterFilter(reason="STATUS 5", route=NamedRoute(name="orders")))
        assert (first.id, first.attempts, first.status, first.kind) == ("e0", 3, 500, "Trigger")
        assert [one.id for one in history.deadletters(DeadLetterFilter(outcome="dropped"))] == ["e1"]
        counts = history.deadletter_counts(DeadLetterFilter())
    assert {(one.name, one.reason, one.count) for one in counts} == {
        ("orders", "HTTP status 500", 1),
        ("orders", "no answer", 1),
        ("other", "HTTP status 500", 1),
    }


def test_the_state_says_how_far_the_table_is_behind(ask: Ask, root: Path) -> None:
    write(root, EVENTS, [event(0, "e0"), event(0, "f0", partition=1)])
    with ask(events=[event(7, "e7"), event(0, "f0", partition=1), event(1, "f1", partition=1)]) as history:
        events, attempts = history.state()
    assert (events.positions, events.behind, events.days) == ({0: 1, 1: 1}, 2, ("2026-11-17",))
    assert (attempts.version, attempts.behind) == (None, 0)


@pytest.mark.parametrize(
    "statement",
    [
        "drop view events",
        "select 1; select 2",
        "copy (select 1) to '{root}/x.csv'",
        "with x as (copy (select 1) to '{file}' (format parquet, use_tmp_file false)) select 1",
        "with x as (delete from events returning *) select * from x",
        "select (with x as (copy (select 1) to '{file}') select 1)",
        "attach '{root}/x.db'",
        "set threads = 1",
        "pragma version",
        "explain analyze copy (select 1) to '{file}'",
        "",
    ],
)
def test_only_statements_that_read_are_taken(ask: Ask, root: Path, statement: str) -> None:
    write(root, EVENTS, [event(0, "e0")])
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*") if path.is_file()}
    file = next(root.rglob("*.parquet"))
    with ask() as history, pytest.raises(HistoryProblem):
        history.sql(statement.format(root=root, file=file) + " -- events")
    assert before == {path: path.stat().st_mtime_ns for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "statement",
    [
        "select * from read_text('/etc/hostname')",
        "select * from glob('/etc/*')",
        "from '/etc/hostname'",
        "from settings",
    ],
)
def test_nothing_but_the_tables_can_be_read(ask: Ask, statement: str) -> None:
    with ask() as history, pytest.raises(HistoryProblem, match="failed"):
        history.sql(statement)


def test_a_wrong_question_is_told_with_its_place(ask: Ask) -> None:
    with ask() as history:
        with pytest.raises(HistoryProblem, match='column "nothing" not found'):
            history.sql("select nothing from events")
        with pytest.raises(HistoryProblem, match="Invalid query"):
            history.sql("selec 1 from events")
        with pytest.raises(HistoryProblem, match="SELECT clause without selection list"):
            history.events(EventFilter(where="1 = 1) or (select"))


def test_a_table_of_a_newer_penstock_is_refused(ask: Ask, root: Path) -> None:
    write(root, EVENTS, [event(0, "e0")], version=2)
    with ask() as history, pytest.raises(HistoryProblem, match="newer version of penstock"):
        history.sql("from events")


def test_a_table_of_somebody_else_is_refused(ask: Ask, root: Path) -> None:
    import pyarrow as pa
    from deltalake import write_deltalake

    write_deltalake(str(root / "events"), pa.table({"a": [1]}))
    with ask() as history, pytest.raises(HistoryProblem, match="that penstock did not create"):
        history.sql("from events")


def test_a_log_that_is_damaged_is_told(ask: Ask, root: Path) -> None:
    write(root, EVENTS, [event(0, "e0")])
    (root / "events" / "_delta_log" / "00000000000000000000.json").write_text("{")
    with ask() as history, pytest.raises(HistoryProblem, match="cannot be read"):
        history.sql("from events")


def test_a_file_that_is_gone_is_told(ask: Ask, root: Path) -> None:
    write(root, EVENTS, [event(0, "e0")])
    next(root.rglob("*.parquet")).unlink()
    with ask() as history, pytest.raises(HistoryProblem, match="failed"):
        history.sql("from events")


def test_events_come_in_pages_that_meet(ask: Ask, root: Path) -> None:
    records = [event(number // 2, f"e{number}", partition=number % 2, after_ms=number // 4) for number in range(12)]
    write(root, EVENTS, records[:6])
    with ask(events=records) as history:
        everything = [one.id for one in history.events(EventFilter())]
        paged: list[str] = []
        last: Position | None = None
        while page := history.events(EventFilter(limit=5, older_than=last)):
            paged += [one.id for one in page]
            last = Position(page[-1].arrival, page[-1].partition, page[-1].offset)
    assert paged == everything
    assert len(set(paged)) == 12


def test_an_event_is_found_by_its_place_with_what_came_before_and_after_it(ask: Ask) -> None:
    first, reply = event(3, "first"), event(4, "reply", after_ms=120, span="c" * 16)
    stranger = event(5, "stranger", after_ms=1, trace="d" * 32)
    with ask(events=[first, reply, stranger], attempts=[attempt(0, first, "replied")]) as history:
        found = history.event_at(0, 4)
        assert found is not None
        assert [one.id for one in history.parents(found)] == ["first"]
        [parent] = history.parents(found)
        traced = history.trace_of(parent)
        assert [one.result for one in traced.attempts] == ["replied"]
        assert [child.event.id for child in traced.children] == ["reply"]
        assert history.parents(parent) == []
        assert history.event_at(0, 99) is None


def test_only_the_newest_are_read_where_there_are_too_many(tmp_path: Path) -> None:
    records = [event(number, f"e{number}") for number in range(10)]
    settings = Settings(data_dir=tmp_path, partitions=1)
    with History(settings, lambda _: KeptRecords(events=records), most=4) as history:
        assert [one.id for one in history.events(EventFilter())] == ["e9", "e8", "e7", "e6"]
        assert history.unread == 6
