"""The Spark session of the pipeline: local with one thread per task that must run at once, or on a given cluster.

The driver is this process with its JVM in both cases, started directly: what is secret in `spark_conf` reaches it by a
socket and is seen in no list of processes. What a given cluster needs beyond that is in `spark_cluster/`.

The router's query needs a slot per partition, twice while a new generation starts beside the old one; each
dispatcher task keeps one for good. These are threads that mostly wait, so there are more of them than cores.
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
from penstock.engine.spark_cluster import masters as driver_address
from penstock.engine.spark_cluster.properties import SparkPlacement
from penstock.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = structlog.get_logger()

TASK_FAILURES = 1000
"""Failures of one task before Spark gives up on its job: a dispatcher task is started again each time it dies."""

STOP_TIMEOUT = "10s"
"""How long a query may take to stop. Without a limit, which is Spark's default, one that hangs holds up the router."""

HIDDEN_NAMES = "(?i)secret|password|token|access[.]?key|jaas|keystore|ssl[.]key"
"""Names of options that neither logs nor Spark's UI nor its event log show the values of."""

HIDDEN_TEXT = r'(?is)(password|secret)\s*=\s*"[^"]*"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END'
"""The same for texts in which such values stand, as in plans and in `sasl.jaas.config`."""


def config_of(settings: Settings, jars: Jars, placement: SparkPlacement | None = None) -> dict[str, str]:
    """Configuration of the session: of one on this machine, or of one that is placed on a cluster."""
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
        # Hadoop sets the rights of checkpoint files itself, whatever the umask of the process.
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
class Addition:
    """What another session than the pipeline's has beyond it, or in its place."""

    name: str
    """What its log is called."""
    config: Mapping[str, str]
    jars: tuple[Path, ...] = ()


def java_options(settings: Settings, name: str = "spark") -> list[str]:
    """Options of the driver's JVM."""
    config = resources.files("penstock.engine").joinpath("log4j2.properties")
    return [
        *(f"-Xmx{settings.spark_heap_mib}m", "-Xss1m", "-XX:+UseSerialGC", "-XX:ReservedCodeCacheSize=128m"),
        *("-XX:-UsePerfData", "-XX:+ExitOnOutOfMemoryError"),
        # Room for the classes of a start: each time it grows, everything is collected.
        *("-XX:MetaspaceSize=128m", *java.COMPILE_LATER, *java.KAFKA_CLIENTS_AS_USUAL),
        f"-Dlog4j2.configurationFile={config}",
        f"-Dpenstock.log={settings.data_dir / 'logs' / f'{name}.log'}",
        f"-Dpenstock.level={'info' if settings.verbose else 'warn'}",
    ]


def classpath(jars: Jars) -> list[Path]:
    """What the driver's JVM loads classes from, in an order that never changes: an archive insists on it."""
    return [*jars.spark_files, *spark_gateway.spark_jars()]


def archive(settings: Settings, jars: Jars, java_home: Path) -> ClassArchive:
    """The class archive of the driver's JVM."""
    return archive_of("spark", archive_folder(settings), java_home, classpath(jars))


def start_jvm(
    settings: Settings, jars: Jars, java_home: Path, name: str = "spark", added: Iterable[Path] = ()
) -> spark_gateway.Gateway:
    """Starts the driver's JVM, from its class archive if there is one.

    What is added comes last: the archive holds for what is before it, and nothing takes the place of Spark's own.
    """
    options = [*archive(settings, jars, java_home).options(), *java_options(settings, name)]
    return spark_gateway.start(java_home / "bin" / "java", options, [*classpath(jars), *added])


def check(settings: Settings) -> None:
    """Raises UserError for what can be known to be wrong before anything starts."""
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
    addition: Addition | None = None,
) -> SparkSession:
    """Starts Spark's driver in this process; the JVM ends with it. Should it end before, `jvm_ended` is called."""
    check(settings)
    placement = _place(settings) if settings.on_cluster else None
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("MALLOC_ARENA_MAX", "2")
    if placement is None:
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    else:
        os.environ["PYSPARK_PYTHON"] = settings.spark_python or packed_python.python()
        # Not as a property, which executors would follow as well: this is a folder of the driver's machine.
        os.environ["SPARK_LOCAL_DIRS"] = str(settings.data_dir / "spark" / "scratch")
    home = java_home or java.find().home
    added = addition or Addition("spark", {})
    gateway = start_jvm(settings, jars, home, added.name, [*_given_classpath(settings), *added.jars])
    gateway.tell_end(jvm_ended)
    with gateway.announced():
        session = _build(_with(config_of(settings, jars, placement), added))
    if placement is not None:
        executors.look(session, settings, packed_python.python())
    return session


def _with(config: dict[str, str], added: Addition) -> dict[str, str]:
    """On a cluster the jars that are added reach the executors as well."""
    jars = ",".join(filter(None, [config.get("spark.jars"), *map(str, added.jars)]))
    return {**config, **added.config} | ({"spark.jars": jars} if "spark.jars" in config else {})


def _place(settings: Settings) -> SparkPlacement:
    master = masters.parse(settings.spark_master or "")
    packed = None if settings.spark_python is not None else packed_python.ensure(settings, _packing)
    return SparkPlacement(master, driver_address.find(settings, master), packed)


def _packing(done: int, total: int, what: str) -> None:
    if done in (0, total):
        log.info("packing what executors need" if done == 0 else "packed what executors need", packages=total)


def _given_classpath(settings: Settings) -> Iterator[Path]:
    """What the user adds, and where Hadoop's configuration is: as Spark's own launcher does."""
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
        raise executors.not_taken(config["spark.master"], str(error)) from error
