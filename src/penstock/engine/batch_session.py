"""A local Spark session for one batch job such as `penstock backtest`, at low priority and with temporary files only.

The JVM ends with this process.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.engine import java
from penstock.engine.jars.jar_cache import Jars
from penstock.engine.spark import start_jvm
from penstock.engine.spark_cluster.properties import AUTHENTICATED
from penstock.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NICENESS = 10
"""Lower priority than the processes that deliver events."""


@contextmanager
def batch_session(settings: Settings, jars: Jars) -> Iterator[SparkSession]:
    """A local session on all cores of the machine. Lowers the priority of this process for good."""
    os.nice(max(0, NICENESS - os.nice(0)))
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("MALLOC_ARENA_MAX", "2")
    with tempfile.TemporaryDirectory(prefix="penstock-batch-") as folder:
        scratch = settings.model_copy(update={"data_dir": Path(folder)})
        (scratch.data_dir / "logs").mkdir()
        session = _open(scratch, jars)
        try:
            yield session
        finally:
            session.stop()


def _open(settings: Settings, jars: Jars) -> SparkSession:
    from pyspark.sql import SparkSession

    cores = os.cpu_count() or 1
    config = {
        **{name: str(value) for name, value in settings.spark_conf.items()},
        "spark.app.name": "penstock-batch",
        "spark.master": f"local[{cores}]",
        "spark.local.dir": str(settings.data_dir / "scratch"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.warehouse.dir": str(settings.data_dir / "warehouse"),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        **AUTHENTICATED,
        "spark.ui.showConsoleProgress": "false",
    }
    with start_jvm(settings, jars, java.find_java().home).used_by_pyspark():
        builder = SparkSession.builder
        for key, value in config.items():
            builder = builder.config(key, value)
        return builder.getOrCreate()
