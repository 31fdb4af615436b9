"""The Spark session of the pipeline: local with one thread per task that must run at once, or on a given cluster.

The router's query needs a slot per partition, twice while a new generation starts beside the old one; each
dispatcher task keeps one for good. These are threads that mostly wait, so there are more of them than cores.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.engine import java, spark_gateway
from penstock.engine.class_archives import ClassArchive, archive_of
from penstock.engine.jars import Jars, archive_folder
from penstock.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASK_FAILURES = 1000
"""Failures of one task before Spark gives up on its job: a dispatcher task is started again each time it dies."""

STOP_TIMEOUT = "10s"
"""How long a query may take to stop. Without a limit, which is Spark's default, one that hangs holds up the router."""


def slots(settings: Settings) -> int:
    """Tasks that must be able to run at the same time."""
    return 2 * settings.partitions + settings.dispatchers + 2


def config_of(settings: Settings, jars: Jars) -> dict[str, str]:
    """Configuration of the session."""
    scratch = settings.data_dir / "spark"
    config = {
        "spark.app.name": "penstock",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": str(settings.partitions),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.streaming.numRecentProgressUpdates": "4",
        "spark.sql.streaming.stopTimeout": STOP_TIMEOUT,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.python.worker.reuse": "true",
        "spark.task.maxFailures": str(TASK_FAILURES),
    }
    if settings.spark_master is not None:
        return config | {
            "spark.master": settings.spark_master,
            "spark.jars": ",".join(map(str, jars.spark_files)),
        }
    return config | {
        "spark.master": f"local[{slots(settings)},{TASK_FAILURES}]",
        "spark.local.dir": str(scratch / "scratch"),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.cleaner.periodicGC.interval": "24h",
        # Hadoop sets the rights of checkpoint files itself, whatever the umask of the process.
        "spark.hadoop.fs.permissions.umask-mode": "077",
        "spark.executor.heartbeatInterval": "60s",
        "spark.network.timeout": "600s",
    }


def java_options(settings: Settings) -> list[str]:
    """Options of a local session's JVM."""
    config = resources.files("penstock.engine").joinpath("log4j2.properties")
    return [
        *(f"-Xmx{settings.spark_heap_mib}m", "-Xss1m", "-XX:+UseSerialGC", "-XX:ReservedCodeCacheSize=128m"),
        *("-XX:-UsePerfData", "-XX:+ExitOnOutOfMemoryError"),
        f"-Dlog4j2.configurationFile={config}",
        f"-Dpenstock.log={settings.data_dir / 'logs' / 'spark.log'}",
        f"-Dpenstock.level={'info' if settings.verbose else 'warn'}",
    ]


def classpath(jars: Jars) -> list[Path]:
    """What a local session's JVM loads classes from, in an order that never changes: an archive insists on it."""
    return [*jars.spark_files, *spark_gateway.spark_jars()]


def archive(settings: Settings, jars: Jars, java_home: Path) -> ClassArchive:
    """The class archive of a local session's JVM."""
    return archive_of("spark", archive_folder(settings), java_home, classpath(jars))


def open_session(
    settings: Settings,
    jars: Jars,
    java_home: Path | None = None,
    jvm_ended: Callable[[int], None] = lambda code: None,
) -> SparkSession:
    """Starts Spark in this process; the JVM ends with it. Should a local one end before, `jvm_ended` is called."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("MALLOC_ARENA_MAX", "2")
    if settings.spark_master is not None:
        return _build(settings, jars)
    home = java_home or java.find().home
    options = [*archive(settings, jars, home).options(), *java_options(settings)]
    gateway = spark_gateway.start(home / "bin" / "java", options, classpath(jars))
    gateway.tell_end(jvm_ended)
    with gateway.announced():
        return _build(settings, jars)


def _build(settings: Settings, jars: Jars) -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for key, value in config_of(settings, jars).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
