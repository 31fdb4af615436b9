"""`route()`: what `penstock.matched` gets of `penstock.events`, as one pure function over DataFrames.

`matching` says which routes want which event; here that becomes records.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.contract import records, topics
from penstock.router.plan.matching import matching, no_headers
from penstock.router.plan.route_index import RouteTable
from penstock.settings import DEFAULT_TOPIC_PREFIX

MILESTONE = 256
"""Of so many events of a partition one is written even if no route matches it, so that a query that reads events
without matches can be distinguished from one that stands still."""

ROUTES_BYTES = 512 * 1024
"""What the list of routes of one record may take; a longer one is cut into several records. A record may be larger than
the one it was made from by twice as much."""


def route(
    events: DataFrame, routes: RouteTable, generation: int, topic_prefix: str = DEFAULT_TOPIC_PREFIX
) -> DataFrame:
    """Records of `penstock.events` (as the Kafka source gives them, with headers) to records of `penstock.matched`.

    A record that is neither an event for a target nor a marker goes to a topic of its own. An event with more routes
    than fit into a record becomes several records, one right after the other. No route is named by two of them, so each
    route finds the event once, and the last record alone says that the event has been routed.
    """
    found = matching(events.select("partition", "offset", "key", "value", "headers"), routes)
    unreadable, matched_topic = (
        topics.name_in_kafka(topic, topic_prefix) for topic in (topics.UNREADABLE, topics.MATCHED)
    )
    stray = ~(F.col("marker") | F.col("event"))
    passes = F.col("marker") | stray | (F.col("offset") % MILESTONE == MILESTONE - 1)
    matched = found.select(
        "partition",
        "offset",
        "key",
        "value",
        "headers",
        (passes | F.col("unread") if routes.facts else passes).alias("passes"),
        F.when(stray, unreadable).otherwise(matched_topic).alias("topic"),
        "uids",
        *(["unread"] if routes.facts else []),
    ).where(F.col("passes") | (F.size("uids") > 0))
    if routes.facts:
        matched = _marked_unread(matched)
    most, longest = routes.most_matches()
    in_a_record = ROUTES_BYTES // (longest + 1)
    if most <= in_a_record:
        return matched.select("topic", "partition", "key", "value", _headers(generation).alias("headers"))
    return _cut(matched, in_a_record).select(
        "topic", "partition", "key", "value", F.concat(_headers(generation), _parts_left()).alias("headers")
    )


def _marked_unread(matched: DataFrame) -> DataFrame:
    """Adds a header that the dispatcher counts. If the event has no routes, only the header is needed."""
    mark = F.struct(F.lit(records.DATA_UNREAD).alias("key"), F.lit("1").cast("binary").alias("value"))
    present = F.coalesce("headers", no_headers())
    alone = F.col("unread") & (F.size("uids") == 0)
    return matched.withColumns(
        {
            "headers": F.when(F.col("unread"), F.concat(present, F.array(mark))).otherwise(present),
            "value": F.when(~alone, F.col("value")),
        }
    )


def _cut(matched: DataFrame, most: int) -> DataFrame:
    """One row for each so many routes of an event, and one for a record without any."""
    last = ((F.greatest(F.size("uids"), F.lit(1)) - 1) / most).cast("int")
    named = F.slice("uids", F.col("part") * most + 1, most)
    parts = matched.select("*", last.alias("last"), F.explode(F.sequence(F.lit(0), last)).alias("part"))
    return parts.withColumn("left", F.col("last") - F.col("part")).withColumn("uids", named)


def _parts_left() -> Column:
    left = F.struct(F.lit(records.PARTS_LEFT).alias("key"), F.col("left").cast("string").cast("binary").alias("value"))
    return F.when(F.col("left") > 0, F.array(left)).otherwise(no_headers())


def _headers(generation: int) -> Column:
    """The event's own headers, then those of `penstock.matched`."""
    added = [
        (records.ORIGIN, F.col("offset").cast("string")),
        (records.ROUTES, F.array_join("uids", ",")),
        (records.GENERATION, F.lit(str(generation))),
    ]
    return F.concat(
        F.coalesce("headers", no_headers()),
        F.array(*(F.struct(F.lit(name).alias("key"), text.cast("binary").alias("value")) for name, text in added)),
    )
