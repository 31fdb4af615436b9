"""Task slots of the Spark that runs here: how many there are, and whether a query more finds room.

Tasks of the query and of the dispatcher never end by themselves, and Spark starts a task whenever a slot is free: with
too few of them it neither fails nor says anything. So they are counted before anything is started.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]

from penstock.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class TooFewSlots(RuntimeError):
    """Another query would find no room beside what runs."""


def count(spark: SparkSession) -> int | None:
    """Tasks that all executors together can run at once; None where Spark does not say."""
    try:
        executors: Any = spark.sparkContext._jsc.sc().statusStore().executorList(True)
        return sum(int(executors.apply(number).maxTasks()) for number in range(executors.size()))
    except (Py4JError, OSError):
        return None


def least(settings: Settings, partitions: int) -> int:
    """Slots without which nothing is routed and delivered at all: a query, the dispatchers, one for what comes up."""
    return partitions + settings.dispatchers + 1


def shortage(settings: Settings, partitions: int, there: int | None, *, beside: bool) -> str | None:
    """Why no query can start now, beside another that runs or alone; None where it can."""
    enough = 2 * partitions + settings.dispatchers + 2 if beside else least(settings, partitions)
    if there is None or there >= enough:
        return None
    what = "A change of routes" if beside else "Routing"
    return (
        f"{what} needs {enough} task slots, the Spark cluster has {there}: "
        f"{2 if beside else 1} x {partitions} partitions, {settings.dispatchers} dispatcher tasks and "
        f"{2 if beside else 1} for Spark itself. Add executors or cores (spark_executors, spark_executor_cores)."
    )
