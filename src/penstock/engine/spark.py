"""The Spark session of the pipeline: local, with one thread per concurrent task, or on an existing cluster.

In both cases the driver is this process with its JVM. The JVM is started directly, so that secrets in `spark_conf`
reach it by a socket and not by its command line. What only an existing cluster needs is in `spark_cluster/`.

The router's query needs a slot per partition, twice while a new generation starts beside the old one; each dispatcher
task keeps a slot. These threads mostly wait, so there may be more of them than cores.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import structlog
from py4j.protocol import Py4JError  # type: ignore[import-untyped]

from penstock.engine import java, spark_gateway
from penstock.engine.class_archives import ClassArchive, archive_of
from penstock.engine.jars.jar_cache import Jars, archive_folder
from penstock.engine.spark_cluster import executors, masters, packed_python, properties
from penstock.engine.spark_cluster.properties import SparkPlacement
from penstock.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = structlog.get_logger()

TASK_FAILURES = 1000
"""Failures of one task before Spark fails the job: high, because a dispatcher task is restarted whenever it fails."""

STOP_TIMEOUT = "10s"
"""How long a query may take to stop. By default Spark sets no limit: a hanging query would block the router."""

HIDDEN_NAMES = "(?i)secret|password|token|access[.]?key|jaas|keystore|ssl[.]key"
"""Options with such names are redacted in logs, in Spark's UI and in its event log."""

HIDDEN_TEXT = r'(?is)(password|secret)\s*=\s*"[^"]*"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END'
"""Such parts of texts (plans, `sasl.jaas.config`) are redacted too."""


def config_of(settings: Settings, jars: Jars, placement: SparkPlacement | None = None) -> dict[str, str]:
    """Configuration of the session; `placement` is given for an existing cluster."""
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
        "spark.redaction.regex": HIDDEN_NAMES,
        "spark.sql.redaction.options.regex": HIDDEN_NAMES,
        "spark.redaction.string.regex": HIDDEN_TEXT,
        "spark.cleaner.periodicGC.interval": "24h",
        **properties.AUTHENTICATED,
        # Hadoop sets the permissions of checkpoint files itself and ignores the umask of the process.
        "spark.hadoop.fs.permissions.umask-mode": "077",
    }
    if placement is None:
        config |= {
            "spark.master": settings.spark_master or f"local[{settings.task_slots},{TASK_FAILURES}]",
            "spark.local.dir": str(scratch / "scratch"),
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.heartbeatInterval": "60s",
            "spark.network.timeout": "600s",
        }
    else:
        config |= {"spark.jars": ",".join(map(str, jars.spark_files)), **properties.of_cluster(settings, placement)}
    return properties.with_given(config, settings.spark_conf)


@dataclass(frozen=True)
class SessionExtras:
    """Configuration and jars of a session other than the pipeline's, such as that of the history."""

    name: str
    """The name of its log file."""
    config: Mapping[str, str]
    jars: tuple[Path, ...] = ()


def java_options(settings: Settings, name: str = "spark") -> list[str]:
    """Options of the driver's JVM."""
    config = resources.files("penstock.engine").joinpath("log4j2.properties")
    return [
        *(f"-Xmx{settings.spark_heap_mib}m", "-Xss1m", "-XX:+UseSerialGC", "-XX:ReservedCodeCacheSize=128m"),
        *("-XX:-UsePerfData", "-XX:+ExitOnOutOfMemoryError"),
        # Enough for the classes of a start: each time it grows, there is a full collection.
        *("-XX:MetaspaceSize=128m", *java.COMPILE_LATER, *java.KAFKA_CLIENTS_AS_USUAL),
        f"-Dlog4j2.configurationFile={config}",
        f"-Dpenstock.log={settings.data_dir / 'logs' / f'{name}.log'}",
        f"-Dpenstock.level={'info' if settings.verbose else 'warn'}",
    ]


def classpath(jars: Jars) -> list[Path]:
    """The class path of the driver's JVM, in a fixed order, which class archives require."""
    return [*jars.spark_files, *spark_gateway.spark_jars()]


def archive(settings: Settings, jars: Jars, java_home: Path) -> ClassArchive:
    """The class archive of the driver's JVM."""
    return archive_of("spark", archive_folder(settings), java_home, classpath(jars))


def start_jvm(
    settings: Settings, jars: Jars, java_home: Path, name: str = "spark", extras: Iterable[Path] = ()
) -> spark_gateway.Gateway:
    """Starts the driver's JVM, from its class archive if there is one.

    Extra jars are last, because a class archive covers a prefix of the class path and Spark's own jars have priority.
    """
    options = [*archive(settings, jars, java_home).options(), *java_options(settings, name)]
    return spark_gateway.start(java_home / "bin" / "java", options, [*classpath(jars), *extras])


def check(settings: Settings) -> None:
    """Raises UserError for wrong settings that can be detected before the start."""
    properties.check(settings.spark_conf)
    if settings.spark_master is None:
        return
    master = masters.parse(settings.spark_master)
    properties.check_secret(master, settings.spark_conf)
    if settings.on_cluster:
        masters.check_kafka_in_reach(settings, master)
        masters.check_reachable(master)


def open_session(
    settings: Settings,
    jars: Jars,
    java_home: Path | None = None,
    jvm_ended: Callable[[int], None] = lambda code: None,
    extras: SessionExtras | None = None,
) -> SparkSession:
    """Starts Spark's driver in this process; the JVM ends with it. If the JVM ends first, `jvm_ended` is called."""
    check(settings)
    placement = _place(settings) if settings.on_cluster else None
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("MALLOC_ARENA_MAX", "2")
    if placement is None:
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    else:
        os.environ["PYSPARK_PYTHON"] = settings.spark_python or packed_python.python()
        # Not as a property, which would apply to executors too: this is a folder of the driver's machine.
        os.environ["SPARK_LOCAL_DIRS"] = str(settings.data_dir / "spark" / "scratch")
    home = java_home or java.find_java().home
    extras = extras or SessionExtras("spark", {})
    gateway = start_jvm(settings, jars, home, extras.name, [*_given_classpath(settings), *extras.jars])
    gateway.on_exit(jvm_ended)
    with gateway.used_by_pyspark():
        session = _build(_with(config_of(settings, jars, placement), extras))
    if placement is not None:
        executors.check_executors(session, settings, packed_python.python())
    return session


def _with(config: dict[str, str], extras: SessionExtras) -> dict[str, str]:
    """The configuration with the extras. On a cluster, extra jars are sent to the executors as well."""
    jars = ",".join(filter(None, [config.get("spark.jars"), *map(str, extras.jars)]))
    return {**config, **extras.config} | ({"spark.jars": jars} if "spark.jars" in config else {})


def _place(settings: Settings) -> SparkPlacement:
    master = masters.parse(settings.spark_master or "")
    packed = None if settings.spark_python is not None else packed_python.ensure(settings, _packing)
    return SparkPlacement(master, masters.driver_address(settings, master), packed)


def _packing(done: int, total: int, what: str) -> None:
    if done in (0, total):
        log.info(
            "packing the Python packages for executors" if done == 0 else "packed the Python packages for executors",
            packages=total,
        )


def _given_classpath(settings: Settings) -> Iterator[Path]:
    """Jars of `spark_conf`, and the folder of Hadoop's configuration, as Spark's own launcher adds them."""
    yield from map(Path, properties.local_jars(settings.spark_conf))
    for variable in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        if settings.on_cluster and os.environ.get(variable):
            yield Path(os.environ[variable])


def _build(config: dict[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for key, value in config.items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except Py4JError as error:
        if config["spark.master"].startswith("local"):
            raise
        raise executors.application_rejected(config["spark.master"], str(error)) from error
