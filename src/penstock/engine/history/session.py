"""A Spark session that reads and writes the tables of the history. The pipeline's own knows nothing of Delta."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.engine import jars, java, spark
from penstock.engine.jar_files import ivy
from penstock.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL_TASKS = 2
BLOCK_BYTES = 32 * 2**20
"""What a Parquet writer gathers in memory before it writes."""


def open_session(
    settings: Settings, name: str = "history-spark", jvm_ended: Callable[[int], None] = lambda code: None
) -> SparkSession:
    """Starts Spark with Delta in this process; fetches Delta's jars first if need be. Raises Problem."""
    found = java.find()
    delta = jars.resolve(settings, found, wanted=ivy.HISTORY)
    own = jars.resolve(settings, found)
    addition = spark.Addition(name, config_of(settings), tuple(delta.delta_files))
    (settings.data_dir / "logs").mkdir(parents=True, exist_ok=True)
    return spark.open_session(settings, own, found.home, jvm_ended, addition)


def config_of(settings: Settings) -> dict[str, str]:
    """What differs from the pipeline's session."""
    from penstock.history.schema import frames
    from penstock.history.writer import spark_table

    local = {} if settings.on_cluster else {"spark.master": f"local[{LOCAL_TASKS}]"}
    return {
        **frames.SESSION,
        **spark_table.SESSION,
        **local,
        "spark.app.name": "penstock history",
        "spark.sql.shuffle.partitions": str(LOCAL_TASKS),
        "spark.task.maxFailures": "4",
        "spark.hadoop.parquet.block.size": str(BLOCK_BYTES),
        "spark.databricks.delta.optimize.minFileSize": str(16 * 2**20),
        "spark.databricks.delta.optimize.maxFileSize": str(256 * 2**20),
        "spark.databricks.delta.optimize.maxThreads": "1",
    }
