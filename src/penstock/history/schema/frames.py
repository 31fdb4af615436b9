"""Records of Kafka as rows of the tables, in Spark, and back again. `rows` says the same in Python; a test compares."""

from __future__ import annotations

from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.contract import records as headers
from penstock.events import kafka_binding as kafka
from penstock.events.event import REQUIRED
from penstock.history.schema.columns import ATTEMPTS, EVENTS, HEADERS
from penstock.history.schema.rows import OWN_COLUMN, STORED_AS

SESSION = {"spark.sql.mapKeyDedupPolicy": "LAST_WIN", "spark.sql.session.timeZone": "UTC"}
"""What the session must be set to."""

_ATTEMPT = (
    "at double, route string, origin bigint, id string, source string, type string, stage string, attempt int, "
    "destination string, result string, latency double, status int, due double, reason string, kind string, "
    "namespace string, name string"
)


def event_rows(records: DataFrame) -> DataFrame:
    """Records of `penstock.events`, as the Kafka source gives them with headers, as rows of `events`."""
    present = F.coalesce("headers", F.array().cast(HEADERS))
    stored = F.map_from_arrays(present["key"], present["value"])
    read = records.select("*", present.alias("present"), stored.alias("stored"))
    attributes = {name: _text(_stored(header)) for name, header in STORED_AS.items()}
    wanted = reduce(and_, (attributes[name].isNotNull() for name in REQUIRED), _stored(headers.TARGET).isNotNull())
    return read.where(wanted).select(
        F.col("timestamp").cast("date").alias("day"),
        "partition",
        "offset",
        F.col("timestamp").alias("arrival"),
        _text(_stored(headers.TARGET)).alias("target"),
        *(column.alias(name) for name, column in attributes.items()),
        _text(_stored(kafka.CONTENT_TYPE)).alias("datacontenttype"),
        _extensions().alias("extensions"),
        F.col("value").alias("data"),
        _text(_stored(headers.TRACE)).alias("traceparent"),
        "key",
        F.filter("present", _is_other).alias("headers"),
    )


def attempt_rows(records: DataFrame) -> DataFrame:
    """Records of `penstock.attempts` as rows of `attempts`."""
    parsed = F.from_json(_text(F.col("value")), _ATTEMPT)
    read = records.select("partition", F.col("offset").alias("record"), parsed.alias("parsed")).select(
        "partition", "record", "parsed.*"
    )
    start = F.timestamp_micros(F.rint(F.col("at") * 1_000_000).cast("bigint"))
    rows = read.where("route is not null and at is not null and origin is not null").select(
        start.cast("date").alias("day"),
        "partition",
        F.col("origin").alias("offset"),
        *("record", "id", "source", "type", "route", "kind", "namespace", "name", "stage", "attempt", "destination"),
        start.alias("start"),
        F.col("latency").alias("duration"),
        *("status", "result", "reason"),
        F.timestamp_micros(F.rint(F.col("due") * 1_000_000).cast("bigint")).alias("due"),
    )
    return rows.select(*ATTEMPTS.names)


def records_of(events: DataFrame) -> DataFrame:
    """Rows of `events` as the records they were made of, as the Kafka source gives them: what `route()` takes."""
    own = {header: F.col(f"`{name}`") for name, header in STORED_AS.items()}
    own |= {kafka.CONTENT_TYPE: F.col("datacontenttype"), headers.TARGET: F.col("target")}
    own |= {headers.TRACE: F.col("traceparent")}
    present = F.array_compact(
        F.array(*(F.when(value.isNotNull(), _header(F.lit(name), value)) for name, value in own.items()))
    )
    extensions = F.transform(
        F.map_entries("extensions"),
        lambda entry: _header(F.concat(F.lit(kafka.PREFIX), entry["key"]), entry["value"]),
    )
    return events.select(
        "key",
        F.col("data").alias("value"),
        F.lit(EVENTS.topic).alias("topic"),
        "partition",
        "offset",
        F.col("arrival").alias("timestamp"),
        F.concat(present, extensions, F.col("headers")).cast(HEADERS).alias("headers"),
    )


def _header(name: Column, value: Column) -> Column:
    return F.struct(name.alias("key"), value.cast("binary").alias("value"))


def _stored(header: str) -> Column:
    return F.try_element_at(F.col("stored"), F.lit(header))


def _text(raw: Column) -> Column:
    """Records are untrusted: bytes that are not UTF-8 must not make the table unreadable."""
    return F.make_valid_utf8(raw.cast("string"))


def _extensions() -> Column:
    others = F.map_filter("stored", lambda name, value: name.startswith(kafka.PREFIX) & ~name.isin(*OWN_COLUMN))
    texts = F.transform_values(others, lambda name, value: F.coalesce(_text(value), F.lit("")))
    return F.transform_keys(texts, lambda name, value: F.substring(name, len(kafka.PREFIX) + 1, 10_000))


def _is_other(header: Column) -> Column:
    return ~header["key"].startswith(kafka.PREFIX) & ~header["key"].isin(*OWN_COLUMN)
