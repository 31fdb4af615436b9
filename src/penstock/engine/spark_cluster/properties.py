"""Properties of Spark: which of them a user may set, and what a given cluster gets. Pure.

Any property may be set, over what penstock chose, but for those on which it depends that no event is lost, and those
that have a setting of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from urllib.parse import urlsplit

from penstock.engine.spark_cluster import packed_python
from penstock.engine.spark_cluster.masters import DriverAddress, Master
from penstock.runtime.errors import UserError
from penstock.settings import Settings

Properties = dict[str, str]

_SETTING = "it has a setting of its own: {}"
REFUSED = {
    "spark.master": _SETTING.format("spark_master"),
    "spark.submit.deployMode": "the pipeline is the driver, so the mode is always client",
    "spark.driver.host": _SETTING.format("spark_driver_host"),
    "spark.driver.bindAddress": _SETTING.format("spark_driver_bind"),
    "spark.driver.memory": _SETTING.format("spark_heap_mib"),
    "spark.driver.extraJavaOptions": "the driver's JVM takes JDK_JAVA_OPTIONS from the environment",
    "spark.driver.extraClassPath": "list further jars in spark.jars, for driver and executors alike",
    "spark.jars.packages": "list the files in spark.jars; nothing is fetched at a start",
    "spark.executor.memory": _SETTING.format("spark_executor_memory_mib"),
    "spark.executor.cores": _SETTING.format("spark_executor_cores"),
    "spark.executor.instances": _SETTING.format("spark_executors"),
    "spark.pyspark.python": _SETTING.format("spark_python"),
    "spark.pyspark.driver.python": _SETTING.format("spark_python"),
    "spark.python.worker.reuse": "a dispatcher task owns its Python process",
    "spark.dynamicAllocation.enabled": "tasks never end, and a new generation of routes needs its slots at once",
    "spark.speculation": "a second copy of a task would write every event twice",
    "spark.task.cpus": "a task waits most of its time; slots are counted as cores",
    "spark.task.maxFailures": "a dispatcher task is started again as often as it dies",
    "spark.scheduler.mode": "tasks never end, so shares mean nothing",
    "spark.sql.adaptive.enabled": "Real-Time Mode plans a query once",
    "spark.sql.shuffle.partitions": _SETTING.format("partitions"),
    "spark.sql.session.timeZone": "filters compare moments in UTC",
    "spark.sql.mapKeyDedupPolicy": "an event with a header that comes twice must not end the query",
    "spark.sql.streaming.stopTimeout": "a query that hangs would hold up the router",
    "spark.sql.streaming.checkpointLocation": "where routing stands is known from penstock.matched",
}
"""Properties that cannot be set, and why."""

EXTENDED = {"spark.jars": ",", "spark.archives": ",", "spark.executorEnv.PYTHONPATH": ":"}
"""Lists that penstock has entries of its own in, and what stands between entries: what the user names is added."""

AUTHENTICATED = {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}
"""The driver's ports deserialise objects of Java, so they ask for the application's secret. Spark makes one for each
application; only with a standalone cluster it has to be that of the cluster."""

HUNG_HOST = {
    "spark.executor.heartbeatInterval": "3s",
    "spark.executor.heartbeat.maxFailures": "4",
    "spark.network.timeout": "15s",
    "spark.network.timeoutInterval": "2s",
    "spark.storage.blockManagerHeartbeatTimeoutMs": "15s",
}
"""An executor that shows no sign of life is given up after seconds: Spark's own two minutes are events that wait."""


def check(given: Mapping[str, object]) -> None:
    """Raises UserError that names every property which cannot be set. Values are not shown: they may be secrets."""
    wrong = [f"spark_conf cannot set {name}: {REFUSED[name]}." for name in sorted(given) if name in REFUSED]
    wrong += [
        f"spark_conf has {name!r}, which is no property of Spark: their names begin with spark."
        for name in sorted(given)
        if not name.startswith("spark.")
    ]
    if wrong:
        raise UserError("\n".join(wrong), "docs/spark.md lists the properties that can be set.")


def check_secret(master: Master, given: Mapping[str, object]) -> None:
    """Raises UserError where a standalone cluster is named without its secret."""
    authenticates = str(given.get("spark.authenticate", True)).lower() != "false"
    if master.kind == "standalone" and authenticates and "spark.authenticate.secret" not in given:
        raise UserError(
            f"spark_conf has no spark.authenticate.secret, which authenticates {master.url}, its executors and "
            "this driver to each other.",
            "Set spark.authenticate and spark.authenticate.secret for the Master and the Workers, and the secret in "
            "spark_conf. Or set spark.authenticate = false: then everyone who reaches the driver's ports can run "
            "code in it.",
        )


def with_given(chosen: Properties, given: Mapping[str, object]) -> Properties:
    """The properties that penstock chose, with those of the user over them or, where they are lists, behind them."""
    merged = dict(chosen)
    for name, value in given.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        merged[name] = f"{merged[name]}{EXTENDED[name]}{text}" if name in EXTENDED and name in merged else text
    return merged


def local_jars(given: Mapping[str, object]) -> list[str]:
    """Paths of the jars that the user names and that are files of this machine: the driver loads them too."""
    listed = [one.strip() for one in str(given.get("spark.jars", "")).split(",") if one.strip()]
    return [urlsplit(one).path for one in listed if urlsplit(one).scheme in ("", "file")]


@dataclass(frozen=True)
class SparkPlacement:
    """Where the driver and the executors of a given cluster meet, and what the executors are sent."""

    master: Master
    driver: DriverAddress
    packed: Path | None = None
    """The archive with penstock; None where the executors have it."""


def of_cluster(settings: Settings, placement: SparkPlacement) -> Properties:
    """What a cluster gets beyond the properties of every session."""
    master, driver = placement.master, placement.driver
    return {
        "spark.master": master.url,
        "spark.submit.deployMode": "client",
        "spark.driver.host": driver.host,
        "spark.driver.bindAddress": driver.bind,
        "spark.dynamicAllocation.enabled": "false",
        "spark.speculation": "false",
        "spark.executor.memory": f"{settings.spark_executor_memory_mib}m",
        "spark.executorEnv.MALLOC_ARENA_MAX": "2",
        **HUNG_HOST,
        **_sizes(settings, master),
        **_sent(placement.packed),
    }


def _sent(packed: Path | None) -> Properties:
    """Executors unpack the archive into their working folder, in which their Python processes start."""
    if packed is None:
        return {}
    return {
        "spark.archives": f"{packed.as_uri()}#{packed_python.FOLDER}",
        "spark.executorEnv.PYTHONPATH": f"./{packed_python.FOLDER}",
    }


def _sizes(settings: Settings, master: Master) -> Properties:
    """A standalone cluster gives what its Workers have; the others are asked for executors of a size."""
    if master.kind == "standalone":
        cores = settings.spark_executor_cores
        return {} if cores is None else {"spark.executor.cores": str(cores)}
    share = ceil(settings.task_slots / settings.spark_executors)
    sizes = {
        "spark.executor.instances": str(settings.spark_executors),
        "spark.executor.cores": str(settings.spark_executor_cores or share),
    }
    return sizes | ({"spark.yarn.isPython": "true"} if master.kind == "yarn" else {})
