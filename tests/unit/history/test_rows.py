"""Records of Kafka as rows of the tables."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.contract import attempts
from penstock.contract.attempts import AttemptRecord
from penstock.history.schema import arrow
from penstock.history.schema.columns import ATTEMPTS, EVENTS, TABLES, Table
from penstock.history.schema.rows import attempt_row, event_row
from penstock.kafka.ranges import LogRecord

HISTORY_PAGE = Path(__file__).parents[3] / "docs" / "history.md"

HEADERS: list[tuple[str, bytes | None]] = [
    ("ce_id", b"1"),
    ("ce_source", b"/shop"),
    ("ce_type", b"order"),
    ("ce_specversion", b"1.0"),
    ("ce_time", b"2026-11-17T10:00:00.123456789Z"),
    ("ce_region", b"eu"),
    ("content-type", b"application/json"),
    ("penstock_target", b"uid-1"),
    ("penstock_traceparent", b"00-" + b"a" * 32 + b"-" + b"b" * 16 + b"-00"),
    ("penstock_http_x-request-id", b"r1"),
]
ATTEMPT = AttemptRecord(
    at=1_794_916_800.25,
    route="uid-2",
    partition=3,
    origin=7,
    id="1",
    source="/shop",
    type="order",
    stage="subscriber",
    attempt=2,
    destination="http://sink/",
    result="retry",
    latency=0.5,
    status=503,
    due=1_794_916_801.25,
    reason="HTTP status 503",
    kind="Trigger",
    namespace="default",
    name="orders",
)


def event(
    headers: Sequence[tuple[str, bytes | None]] = HEADERS, value: bytes | None = None, key: bytes | None = None
) -> LogRecord:
    return LogRecord(3, 7, 1_794_916_800_123, key, headers, value)


def attempt(value: bytes | None) -> LogRecord:
    return LogRecord(3, 11, 0, None, (), value)


def named(table: Table, row: tuple[Any, ...] | None) -> dict[str, Any]:
    assert row is not None
    return dict(zip(table.names, row, strict=True))


def test_an_event_has_its_attributes_in_columns_and_the_rest_beside() -> None:
    row = named(EVENTS, event_row(event(HEADERS, b"{}", b"k")))
    assert row["day"] == date(2026, 11, 17)
    assert row["arrival"] == datetime(2026, 11, 17, 12, 0, 0, 123_000, tzinfo=UTC)
    assert (row["partition"], row["offset"], row["target"], row["key"]) == (3, 7, "uid-1", b"k")
    assert (row["id"], row["source"], row["type"], row["specversion"]) == ("1", "/shop", "order", "1.0")
    assert (row["time"], row["subject"], row["dataschema"]) == ("2026-11-17T10:00:00.123456789Z", None, None)
    assert (row["datacontenttype"], row["data"]) == ("application/json", b"{}")
    assert row["extensions"] == {"region": "eu"}
    assert row["headers"] == [{"key": "penstock_http_x-request-id", "value": b"r1"}]
    assert row["traceparent"][3:35] == "a" * 32


@pytest.mark.parametrize(
    "headers",
    [
        [("penstock_marker", b"1:2:3")],
        [],
        HEADERS[1:],
        [header for header in HEADERS if header[0] != "penstock_target"],
    ],
    ids=["marker", "nothing", "without id", "for nobody"],
)
def test_what_is_no_event_has_no_row(headers: list[tuple[str, bytes | None]]) -> None:
    assert event_row(event(headers, b"x")) is None


def test_bytes_that_are_no_text_do_not_make_a_row_unreadable() -> None:
    row = named(EVENTS, event_row(event([*HEADERS, ("ce_bad", b"\xff"), ("ce_null", None)], b"\xff")))
    assert row["extensions"]["bad"] == "\ufffd"
    assert row["extensions"]["null"] == ""
    assert row["data"] == b"\xff"


def test_of_a_header_that_comes_twice_the_last_counts() -> None:
    assert named(EVENTS, event_row(event([*HEADERS, ("ce_id", b"2")])))["id"] == "2"


def test_an_attempt_names_its_route_and_its_event() -> None:
    row = named(ATTEMPTS, attempt_row(attempt(attempts.encode(ATTEMPT))))
    assert (row["partition"], row["offset"], row["record"]) == (3, 7, 11)
    assert (row["kind"], row["namespace"], row["name"]) == ("Trigger", "default", "orders")
    assert row["start"] == datetime(2026, 11, 17, 12, 0, 0, 250_000, tzinfo=UTC)
    assert row["due"] == datetime(2026, 11, 17, 12, 0, 1, 250_000, tzinfo=UTC)
    assert (row["result"], row["status"], row["duration"]) == ("retry", 503, 0.5)


def test_an_attempt_of_an_older_version_has_no_names() -> None:
    value = b'{"at":1.0,"route":"u","partition":0,"origin":1,"id":"","source":"","type":"","stage":"subscriber",'
    value += b'"attempt":1,"destination":"","result":"delivered","latency":0.1}'
    row = named(ATTEMPTS, attempt_row(attempt(value)))
    assert (row["kind"], row["name"], row["status"], row["due"]) == (None, None, None, None)


@pytest.mark.parametrize("value", [None, b"", b"{", b"[]", b'{"at": "x"}'])
def test_what_is_no_attempt_has_no_row(value: bytes | None) -> None:
    assert attempt_row(attempt(value)) is None


@pytest.mark.parametrize("beyond", [1e300, 1e12, -1e12])
def test_a_time_that_no_calendar_has_makes_no_row_and_stops_nobody(beyond: float) -> None:
    for broken in (replace(ATTEMPT, at=beyond), replace(ATTEMPT, due=beyond)):
        assert attempt_row(attempt(attempts.encode(broken))) is None


def test_rows_fit_into_the_tables() -> None:
    events = arrow.batch_of(EVENTS, [event_row(event()) or ()])
    tried = arrow.batch_of(ATTEMPTS, [attempt_row(attempt(attempts.encode(ATTEMPT))) or ()])
    assert events.to_pylist()[0]["extensions"] == [("region", "eu")]
    assert tried.to_pylist()[0]["due"] == datetime(2026, 11, 17, 12, 0, 1, 250_000, tzinfo=UTC)
    assert arrow.batch_of(EVENTS, []).num_rows == 0


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_the_page_shows_every_column(table: Table) -> None:
    page = HISTORY_PAGE.read_text()
    missing = [one.name for one in table.columns if f"| `{one.name}` | `{one.type}` | {one.meaning} |" not in page]
    assert missing == []
