"""What data says: Spark's answer is the reference's, whatever the data is, and nothing ever raises."""

from __future__ import annotations

import json
import random
import struct
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from penstock.events.event import CloudEvent
from penstock.filters.data.columns import FACTS, SESSION, with_facts
from penstock.filters.data.facts import KIND, NUMBER, STRING, facts, key_of

BASE = {"specversion": "1.0", "id": "1", "source": "/a", "type": "order"}
MEMBERS = ["a", "b", "a.b", "a b", "é", "x'y", '"', "[0]", "$", "?", "\\"]
PATHS = [(member,) for member in MEMBERS] + [("a", "b"), ("a", "a.b"), ("b", "a", "b"), ("a", "0")]
NAMES = [kind + key_of(path) for path in PATHS for kind in (KIND, STRING, NUMBER)]

TEXTS = ["", "a", "DE", "true", "1", "null", "𝄞", "straße", "\x00", "\u2028", '"\\', "é", "\u007f", "\uffff"]
NUMBERS = [0, -1, 1.5, 2**53 - 1, 2**53, 2**63, -(2**63) - 1, 10**40, 1e20, 1e-320, 5e-324, 0.1, 1e15 / 7, 1e300]
SPOILT = [b"", b" ", b"]", b"}", b",", b"1", b"\xff", b'"', b"\n", b"\t", b"x", b":", b"[", b"\x00", b"\\"]
ODD = [
    b"",
    b" ",
    b"null",
    b"1",
    b'"a"',
    b"[]",
    b"{}",
    b"1]",
    b'1,"the data ends here"]',
    b'1,"the data ends here"]]x',
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
TYPES = ["application/json"] * 12 + [
    *("text/json", "a/b+json", "APPLICATION/JSON; charset=utf-8", "application/json\t;a=b", "text/plain", "json", "")
]


def random_value(chance: random.Random, depth: int = 0) -> Any:
    kind = chance.choice(["text", "number", "float", "integer", "other"] + ["array", "object"] * 2 * (depth < 3))
    match kind:
        case "text":
            return chance.choice(TEXTS)
        case "number":
            return chance.choice(NUMBERS)
        case "float":
            return struct.unpack("d", chance.randbytes(6) + b"\x00" + chance.choice([b"\x40", b"\x3f", b"\xc0"]))[0]
        case "integer":
            return chance.randint(-(10**20), 10**20)
        case "array":
            return [random_value(chance, depth + 1) for _ in range(chance.randint(0, 2))]
        case "object":
            return random_object(chance, depth + 1)
        case _:
            return chance.choice([None, True, False])


def random_object(chance: random.Random, depth: int = 0) -> dict[str, Any]:
    names = [chance.choice([*MEMBERS, *TEXTS]) for _ in range(chance.randint(0, 5))]
    return {name: random_value(chance, depth) for name in names}


def random_number(chance: random.Random) -> str:
    """A number as it may be written."""
    digits = "".join(chance.choices("0123456789", k=chance.randint(1, 40))).lstrip("0") or "0"
    fraction = "." + "".join(chance.choices("0123456789", k=chance.randint(1, 40))) if chance.random() < 0.6 else ""
    exponent = f"{chance.choice('eE')}{chance.choice(['', '+', '-'])}{chance.randint(0, 400)}"
    return chance.choice(["", "-"]) + digits + fraction + (exponent if chance.random() < 0.4 else "")


def random_data(chance: random.Random) -> bytes | None:
    kind = chance.choice(["json"] * 4 + ["number", "number", "spoilt", "spoilt", "none"])
    text = json.dumps(random_object(chance), ensure_ascii=chance.random() < 0.5).encode()
    match kind:
        case "json":
            return text
        case "number":
            number = random_number(chance)
            return f'{{"a": {number}, "b": {{"a": {{"b": {number}}}}}}}'.encode()
        case "spoilt":
            place = chance.randint(0, len(text))
            return text[:place] + chance.choice(SPOILT) + text[place + chance.randint(0, 1) :]
        case _:
            return None


def test_spark_reads_in_data_what_the_reference_reads(spark: SparkSession) -> None:
    chance = random.Random(4)
    events = [(random_data(chance), chance.choice(TYPES)) for _ in range(1500)]
    events += [(data, "application/json") for data in ODD]
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
