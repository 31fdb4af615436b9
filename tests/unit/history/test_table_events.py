"""Events by their place in the log, read from tables that were written."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.contract.records import MARKER
from penstock.history.reader.table_events import FRESH_SECONDS, FirstKept, GivenUpBy, KeptEvents, Stretch, record_of
from penstock.history.schema.columns import ATTEMPTS, EVENTS, HistoryProblem
from penstock.history.schema.rows import event_row
from penstock.kafka.ranges import LogRecord
from penstock.settings import Settings
from tests.written import NOON, attempt, event, write


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path, partitions=2)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "history"


def test_without_a_table_there_is_nothing(settings: Settings) -> None:
    kept = KeptEvents(settings)
    assert (kept.firsts(), kept.read(0, 0, 9), kept.given_up(0, GivenUpBy("r1"))) == ({}, [], [])
    kept.close()


def test_events_are_found_by_their_place(settings: Settings, root: Path) -> None:
    records = [event(number, f"e{number}", after_ms=number * 1000) for number in range(5, 10)]
    write(root, EVENTS, [*records, event(3, "other", partition=1)])
    kept = KeptEvents(settings)
    assert [record.offset for record in kept.read(0, 0, 8)] == [5, 6, 7]
    (found,) = kept.read(0, 7, 8)
    assert (found.at_ms, found.value, dict(found.headers)) == (
        records[2].at_ms,
        records[2].value,
        dict(records[2].headers),
    )
    assert kept.firsts() == {0: FirstKept(5, 5), 1: FirstKept(3, 3)}
    assert kept.firsts(NOON / 1000 + 6.5) == {0: FirstKept(7, 5)}
    kept.close()


def test_what_is_written_later_is_seen_after_a_while(settings: Settings, root: Path) -> None:
    now = 0.0
    kept = KeptEvents(settings, lambda: now)
    write(root, EVENTS, [event(1, "a")])
    assert len(kept.read(0, 0, 9)) == 1
    write(root, EVENTS, [event(2, "b")])
    now = FRESH_SECONDS + 1
    assert len(kept.read(0, 0, 9)) == 2
    kept.close()


def test_what_the_table_has_all_of_reaches_to_its_position(settings: Settings, root: Path) -> None:
    """The newest offsets may be those of markers, which have no rows."""
    now = 0.0
    kept = KeptEvents(settings, lambda: now)
    assert kept.stretch(0, 0) is None
    write(root, EVENTS, [event(number, f"e{number}") for number in (5, 6, 9)])
    assert kept.stretch(0, 0) is None, "the table of a moment ago"
    assert kept.stretch(0, 0, newest=True) == Stretch(5, 10)
    write(root, EVENTS, [event(10, "e10"), LogRecord(0, 11, NOON, None, [(MARKER, b"1:1:1")], None)])
    assert kept.stretch(0, 7, newest=True) == Stretch(7, 12)
    assert (kept.stretch(0, 11), kept.stretch(0, 12), kept.stretch(1, 0)) == (Stretch(11, 12), None, None)
    kept.close()


def test_what_was_given_up_is_found_by_route_time_and_reason(settings: Settings, root: Path) -> None:
    of = [event(number, f"e{number}", after_ms=number * 1000) for number in range(6)]
    write(
        root,
        ATTEMPTS,
        [
            attempt(0, of[0], "dropped", reason="HTTP status 500"),
            attempt(1, of[1], "deadletter", reason="no answer"),
            attempt(2, of[1], "dropped", stage="deadletter", reason="no answer"),
            attempt(3, of[2], "delivered"),
            attempt(4, of[3], "dropped", route="r2"),
            attempt(5, of[4], "dropped"),
        ],
    )
    kept = KeptEvents(settings)
    assert kept.given_up(0, GivenUpBy("r1")) == [0, 1, 4]
    assert kept.given_up(0, GivenUpBy("r1", reason="Status 5")) == [0]
    assert kept.given_up(0, GivenUpBy("r1", since=NOON / 1000 + 0.5, until=NOON / 1000 + 3)) == [1]
    assert kept.given_up(1, GivenUpBy("r1")) == []
    kept.close()


def test_a_table_of_a_newer_version_is_a_problem(settings: Settings, root: Path) -> None:
    write(root, EVENTS, [event(1, "a")], version=99)
    with pytest.raises(HistoryProblem, match="newer"):
        KeptEvents(settings).read(0, 0, 9)


OWN = ("id", "source", "type", "specversion", "datacontenttype")
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8)


@given(
    st.dictionaries(
        st.from_regex(r"[a-z0-9]{1,8}", fullmatch=True).filter(lambda name: name not in OWN), TEXT, max_size=3
    ),
    st.dictionaries(
        st.sampled_from(["penstock_http_x-request-id", "penstock_tracestate", "other"]), st.binary(max_size=5)
    ),
    st.one_of(st.none(), st.binary(max_size=9)),
    st.one_of(st.none(), TEXT),
)
def test_a_row_is_the_record_that_it_was_made_of(
    extensions: dict[str, str], others: dict[str, bytes], data: bytes | None, content_type: str | None
) -> None:
    stored = {"ce_id": b"1", "ce_source": b"/s", "ce_type": b"t", "ce_specversion": b"1.0", "penstock_target": b"u"}
    stored |= {f"ce_{name}": value.encode() for name, value in extensions.items()}
    stored |= {} if content_type is None else {"content-type": content_type.encode()}
    record = LogRecord(1, 7, NOON, b"key", list({**stored, **others}.items()), data)
    row = event_row(record)
    assert row is not None
    again = record_of(dict(zip(EVENTS.names, row, strict=True)))
    assert again._replace(headers=()) == record._replace(headers=())
    assert dict(again.headers) == dict(record.headers)
