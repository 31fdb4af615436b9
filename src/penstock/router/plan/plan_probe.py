"""Trying routes on Spark without Kafka: one made-up event is routed in a batch, and nothing is written."""

from __future__ import annotations

from collections.abc import Sequence

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.contract import headers
from penstock.contract.routes import Route
from penstock.events.event import REQUIRED
from penstock.events.kafka_binding import PREFIX
from penstock.router.plan.route_index import index_routes
from penstock.router.plan.routing import route
from penstock.router.plan.unplannable import Unfit

LONGEST_REASON = 300


def attempt(spark: SparkSession, routes: Sequence[Route]) -> Unfit | None:
    """Why Spark cannot route by these routes; None where it can. Only what it says of the filters is final: anything
    else may be a failure of its own."""
    try:
        route(_event(spark, routes[0].target if routes else ""), index_routes(routes), 0).collect()
    except (Py4JJavaError, PySparkException, RecursionError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:LONGEST_REASON]
        return Unfit(reason, final=isinstance(error, (AnalysisException, RecursionError)))
    return None


def _event(spark: SparkSession, target: str) -> DataFrame:
    """One record as the Kafka source gives it. It hangs on a column, lest Spark work everything out beforehand."""
    text = F.concat(F.lit("trial"), F.col("id").cast("string"))
    values = {**{PREFIX + name: text for name in REQUIRED}, headers.TARGET: F.lit(target)}
    pairs = [F.struct(F.lit(name).alias("key"), value.cast("binary").alias("value")) for name, value in values.items()]
    return spark.range(1).select(
        F.lit(0).alias("partition"),
        F.col("id").alias("offset"),
        text.cast("binary").alias("key"),
        text.cast("binary").alias("value"),
        F.array(*pairs).alias("headers"),
    )
