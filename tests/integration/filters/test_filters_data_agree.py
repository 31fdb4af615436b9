"""What data says: Spark's answer is the reference's, whatever the data is, and nothing ever raises."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from penstock.events.event import CloudEvent
from penstock.filters.data.columns import FACTS, SESSION, with_facts
from penstock.filters.data.facts import facts
from penstock.filters.data.names import KIND, NUMBER, STRING, key_of

BASE = {"specversion": "1.0", "id": "1", "source": "/a", "type": "order"}
MEMBERS = ["a", "b", "a.b", "a b", "é", "x'y", '"', "[0]", "$", "?", "\\"]
PATHS = [(member,) for member in MEMBERS] + [("a", "b"), ("a", "a.b"), ("b", "a", "b"), ("a", "0")]
NAMES = [kind + key_of(path) for path in PATHS for kind in (KIND, STRING, NUMBER)]

TEXTS = st.sampled_from(["", "a", "DE", "true", "1", "null", "𝄞", "straße", "\x00", "\u2028", '"\\']) | st.text(
    max_size=4
)
NUMBERS = st.one_of(
    st.sampled_from([0, -1, 1.5, 2**53 - 1, 2**53, 2**63, -(2**63) - 1, 10**40, 1e20, 1e-320, 5e-324, 0.1, 1e15 / 7]),
    st.integers(-(10**20), 10**20),
    st.floats(allow_nan=False, allow_infinity=False),
)
WRITTEN_NUMBERS = st.from_regex(r"\A-?(0|[1-9][0-9]{0,40})(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,3})?\Z")
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(MEMBERS) | TEXTS, inner, max_size=4),
    max_leaves=8,
)
JSON = st.builds(
    lambda value, ascii_only: json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "replace"),
    st.dictionaries(st.sampled_from(MEMBERS), VALUES, max_size=5),
    st.booleans(),
)
NUMBERED = WRITTEN_NUMBERS.map(lambda text: f'{{"a": {text}, "b": {{"a": {{"b": {text}}}}}}}'.encode())
SPOILT = st.builds(
    lambda data, place, what: data[: place % (len(data) + 1)] + what + data[place % (len(data) + 1) :],
    JSON,
    st.integers(0, 200),
    st.sampled_from([b"", b" ", b"]", b"}", b",", b"1", b"\xff", b'"', b"\n", b"\t", b"x", b":", b"[", b"\x00"]),
)
ODD = st.sampled_from(
    [
        b"",
        b" ",
        b"null",
        b"1",
        b'"a"',
        b"[]",
        b"{}",
        b"1]",
        b"1,2",
        b'{"a": 1} x',
        b'{"a": 1}{"a": 2}',
        b'{"a": 1},"a"',
        b'{"a": 1, "a": 2}',
        b'{"a": {"b": 1}, "a": {"a.b": 2}}',
        b'{"a": 01}',
        b'{"a": +1}',
        b'{"a": .5}',
        b'{"a": 1.}',
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": 1e999, "b": -1e999}',
        b'{"a": -0, "b": -0.0}',
        b'{"a": "\\ud800"}',
        b'{"a": "\\ud83d\\ude00", "b": "\\u00e9\\/"}',
        b'{"a": "\\x"}',
        b'{"a": "line\nbreak"}',
        b"{'a': 1}",
        b"{a: 1}",
        b'{"a": 1,}',
        b'/* */ {"a": 1}',
        b'\xef\xbb\xbf{"a": 1}',
        '{"a": 1}'.encode("utf-16"),
        b'{"a": %s}' % (b"1" * 1000),
        b'{"a": %s}' % (b"1" * 1001),
        b'{"a": 0.%s}' % (b"1" * 999),
        b"[" * 300 + b"]" * 300,
        b"[" * 5000 + b"]" * 5000,
    ]
)
TYPES = st.sampled_from(
    ["application/json"] * 8
    + ["text/json", "a/b+json", "APPLICATION/JSON; charset=utf-8", "application/json\t;a=b", "text/plain", "json", ""]
)
EVENTS = st.tuples(st.one_of(JSON, JSON, NUMBERED, SPOILT, ODD, st.none()), TYPES)


@settings(max_examples=2, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(st.lists(EVENTS, min_size=400, max_size=400))
def test_spark_reads_in_data_what_the_reference_reads(
    spark: SparkSession, events: list[tuple[bytes | None, str]]
) -> None:
    for name, value in SESSION.items():
        spark.conf.set(name, value)
    rows = [(number, data, kind) for number, (data, kind) in enumerate(events)]
    records = spark.createDataFrame(rows, "n int, value binary, kind string")
    asked = with_facts(records, [KIND, *NAMES], wanted=F.lit(True), content_type=F.col("kind"))
    answers = {row["n"]: row[FACTS] for row in asked.collect()}
    differing = []
    for number, (data, kind) in enumerate(events):
        expected = facts(CloudEvent({**BASE, "datacontenttype": kind}, data), NAMES)
        found = _read(answers[number])
        readable = bool(facts(CloudEvent({**BASE, "datacontenttype": kind}, data), [KIND]))
        if found != (_comparable(expected) if readable else None):
            differing.append((data, kind, found, expected))
    assert differing == []


def _read(answer: list[bytearray | None] | None) -> dict[str, Any] | None:
    if answer is None:
        return None
    texts = {name: bytes(text).decode() for name, text in zip(NAMES, answer[1:], strict=True) if text is not None}
    return _comparable(texts)


def _comparable(found: dict[str, str]) -> dict[str, Any]:
    """Numbers that are not whole are written in several ways; whole ones in one alone."""
    return {
        name: float(text) if name.startswith(NUMBER) and not text.lstrip("-").isdigit() else text
        for name, text in found.items()
    }


def test_data_that_nobody_asks_for_is_not_read(spark: SparkSession) -> None:
    records = spark.createDataFrame([(b'{"a": 1}', "application/json")], "value binary, kind string")
    asked = with_facts(records, [KIND + "a"], wanted=F.lit(False), content_type=F.col("kind"))
    assert asked.collect()[0][FACTS] is None
