"""`matching()`: which routes want which event, as one pure function over DataFrames.

Native expressions only, row by row, and joins with broadcast relations only, because Real-Time Mode runs nothing else.
The same function serves the live query, a micro-batch query and a batch over history. An event is looked up under its
target and the attributes that routes are filed under (see `route_index`), so its cost depends on how many candidates it
has, not on how many routes exist. Data is looked at only where a filter asks for it: such tables have another plan, and
in it only events of the targets concerned are parsed. Nothing here may raise, whatever a record contains.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import reduce
from operator import and_
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.contract import records
from penstock.events.event import REQUIRED
from penstock.filters.columns import column
from penstock.filters.data import columns as data_columns
from penstock.filters.predicate import COMPARE, Predicate
from penstock.router.plan.route_index import OPS, Bucket, RouteTable, header_of

ATOM = "struct<op:int,header:string,value:string,negated:boolean>"
ATOM_WITH_NUMBER = "struct<op:int,header:string,value:string,negated:boolean,number:double>"
"""A comparison as data: with its number where some filter compares numbers."""

CHUNK = 500
"""Buckets handed to the JVM in one piece."""

SESSION = {"spark.sql.mapKeyDedupPolicy": "LAST_WIN", **data_columns.SESSION}
"""What the session must be set to: the last value of a repeated header counts."""


def matching(events: DataFrame, routes: RouteTable) -> DataFrame:
    """Records of `penstock.events`, as the Kafka source gives them, with what is found out about each:

    `target`, whether it is a `marker`, whether it is an `event`, `uids` of the routes that want it, and, where filters
    ask for data, whether it is `unread`: an event whose data is asked for and is not JSON. Where there is a column
    `stored`, a map of headers, it is taken in place of `headers`.
    """
    read = _read(events, routes)
    found_in = []
    for number, attribute in enumerate(sorted(routes.filed)):
        name = f"filed{number}"
        same = (F.col("target") == F.col(f"{name}_target")) & (F.col(f"key{number}") == F.col(f"{name}_key"))
        read = read.join(
            F.broadcast(_relation(events.sparkSession, routes.filed[attribute], name, routes)), same, "left"
        )
        found_in.append(name)
    if routes.unfiled:
        relation = _relation(events.sparkSession, routes.unfiled, "unfiled", routes)
        read = read.join(F.broadcast(relation), F.col("target") == F.col("unfiled_target"), "left")
        found_in.append("unfiled")
    unread = [(F.col("event") & F.col("unread")).alias("unread")] if routes.facts else []
    return read.select(*events.columns, "target", "marker", "event", _uids(found_in, routes).alias("uids"), *unread)


def stored_headers() -> Column:
    """The headers of a record as a map."""
    present = F.coalesce("headers", no_headers())
    return F.map_from_arrays(present["key"], present["value"])


def no_headers() -> Column:
    """Headers of a record that has none."""
    return F.array().cast("array<struct<key:string,value:binary>>")


class _Stored:
    """The attributes of an event, looked up where they are stored: among the headers of its record."""

    def __getitem__(self, name: str) -> Column:
        return _text(F.lit(header_of(name)))


def _text(header: Column) -> Column:
    """The value of a header as text; null where there is none."""
    return F.try_element_at(F.col("stored"), header).cast("string")


def _read(events: DataFrame, routes: RouteTable) -> DataFrame:
    """The record's headers as a map, its target, and the values it is looked up under.

    The map is made of whole columns: turning headers into attributes one by one, in a lambda that Spark does not
    compile, would cost more than all the rest.
    """
    read = events if "stored" in events.columns else events.select("*", stored_headers().alias("stored"))
    if routes.facts:
        read = _with_facts(read, routes)
    attributes, target, marker = _Stored(), _text(F.lit(records.TARGET)), _text(F.lit(records.MARKER))
    return read.select(
        "*",
        target.alias("target"),
        (target.isNull() & marker.isNotNull()).alias("marker"),
        reduce(and_, (attributes[name].isNotNull() for name in REQUIRED), target.isNotNull()).alias("event"),
        *(attributes[name].alias(f"key{n}") for n, name in enumerate(sorted(routes.filed))),
    )


def _with_facts(read: DataFrame, routes: RouteTable) -> DataFrame:
    """What data says beside what is stored in headers, and whether it should say something and cannot be read."""
    asked = F.coalesce(_text(F.lit(records.TARGET)).isin(*routes.targets_on_data), F.lit(False))
    content_type = _text(F.lit(header_of("datacontenttype")))
    looked_at = data_columns.with_facts(read, routes.facts, wanted=asked, content_type=content_type)
    facts = F.col(data_columns.FACTS)
    found = F.map_concat("stored", F.map_from_arrays(F.array(*map(F.lit, routes.facts)), facts))
    return looked_at.select(
        *(name for name in read.columns if name != "stored"),
        F.when(facts.isNull(), F.col("stored")).otherwise(found).alias("stored"),
        (asked & facts.isNull()).alias("unread"),
    )


def _uids(found_in: Sequence[str], routes: RouteTable) -> Column:
    """uids of the routes that match: of those that an event need only find, and of those that have to be checked then.

    Checking is not compiled by Spark and costs several times as much as finding; so where nothing has to be checked,
    nothing is.
    """
    parts = []
    if routes.has_sure:
        parts.append(_joined([f"{name}_sure" for name in found_in], "string"))
    if routes.has_unsure:
        every = _joined([f"{name}_routes" for name in found_in], _route_type(routes))
        matching = F.filter(every, lambda found: _holds(found, routes))
        parts.append(F.transform(matching, lambda found: found["uid"]))
    return F.concat(*parts) if len(parts) > 1 else parts[0] if parts else F.array().cast("array<string>")


def _joined(columns: Sequence[str], element: str) -> Column:
    """All that is in some columns of arrays, null where nothing was found."""
    every = F.col(columns[0]) if len(columns) == 1 else F.flatten(F.array_compact(F.array(*columns)))
    return F.coalesce(every, F.array().cast(f"array<{element}>"))


def _holds(found: Column, routes: RouteTable) -> Column:
    """Whether what remains of a candidate's filter holds and its start has come; the likeliest to fail comes first."""
    atom = _atom_or_number if routes.compares_numbers else _atom
    holds = F.forall(found["clauses"], lambda clause: F.exists(clause, atom))
    if routes.predicates:
        holds &= found["predicate"].isNull() | _numbered(found["predicate"], routes.predicates, 0)
    started = F.coalesce(F.try_element_at(found["start"], F.col("partition") + 1), F.lit(0)) <= F.col("offset")
    return F.coalesce(holds & started, F.lit(False))


def _numbered(number: Column, predicates: Sequence[Predicate], first: int) -> Column:
    """The predicate of that number, chosen by halves, so that many cost a candidate hardly more than few."""
    if len(predicates) == 1:
        return F.coalesce(column(predicates[0], _Stored()), F.lit(False))
    half = len(predicates) // 2
    return F.when(number < first + half, _numbered(number, predicates[:half], first)).otherwise(
        _numbered(number, predicates[half:], first + half)
    )


def _atom(atom: Column) -> Column:
    """One comparison, given as data. A missing attribute compares as false."""
    value = _text(atom["header"])
    return F.coalesce(_compared(atom, value).otherwise(value != ""), F.lit(False)) != atom["negated"]


def _atom_or_number(atom: Column) -> Column:
    """The same where some filter compares numbers."""
    value = _text(atom["header"])
    holds, number = _compared(atom, value), value.try_cast("double")
    for name, compare in COMPARE.items():
        holds = holds.when(atom["op"] == OPS.index(name), compare(number, atom["number"]))
    return F.coalesce(holds.otherwise(value != ""), F.lit(False)) != atom["negated"]


def _compared(atom: Column, value: Column) -> Column:
    return (
        F.when(atom["op"] == OPS.index("exact"), value == atom["value"])
        .when(atom["op"] == OPS.index("prefix"), F.startswith(value, atom["value"]))
        .when(atom["op"] == OPS.index("suffix"), F.endswith(value, atom["value"]))
    )


def _route_type(routes: RouteTable) -> str:
    atom = ATOM_WITH_NUMBER if routes.compares_numbers else ATOM
    return f"struct<uid:string,start:array<bigint>,clauses:array<array<{atom}>>,predicate:int>"


def _relation(spark: SparkSession, buckets: Sequence[Bucket], name: str, routes: RouteTable) -> DataFrame:
    """The buckets as a relation. They go to the JVM as text: one call for hundreds, and no Python worker reads them."""
    jvm: Any = spark._jvm
    texts = jvm.java.util.ArrayList()
    for begin in range(0, len(buckets), CHUNK):
        texts.add(json.dumps([bucket.as_data() for bucket in buckets[begin : begin + CHUNK]]))
    strings = spark._jsparkSession.createDataset(texts, jvm.org.apache.spark.sql.Encoders.STRING())
    columns = {"target": "string", "key": "string"}
    columns |= {"sure": "array<string>"} if routes.has_sure else {}
    columns |= {"routes": f"array<{_route_type(routes)}>"} if routes.has_unsure else {}
    declared = ",".join(f"{column}:{kind}" for column, kind in columns.items())
    rows = F.inline(F.from_json("value", f"array<struct<{declared}>>"))
    return DataFrame(strings.toDF(), spark).select(rows).toDF(*(f"{name}_{column}" for column in columns))
