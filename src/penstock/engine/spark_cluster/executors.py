"""Checks at the start whether executors have the Python, the packages and the Spark version that tasks need.

Spark retries a failed task a thousand times and logs a page for each. Here a first job is run, and its first errors
become one message that names the setting to check.
"""

from __future__ import annotations

import platform
import re
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import structlog
from py4j.protocol import Py4JError  # type: ignore[import-untyped]

from penstock.router import watchdogs
from penstock.runtime.errors import UserError
from penstock.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = structlog.get_logger()

EXECUTOR_SECONDS = 120.0
"""How long the first executor may take to start: Kubernetes may have to pull an image."""
POLL_SECONDS = 0.2
PROBE_SECONDS = 120.0
FAILURES = 8
"""Failed tasks after which the check is aborted; a single bad executor among good ones causes a few."""
MOST_TASKS = 32
GROUP = "penstock checks executors"


@dataclass(frozen=True)
class TaskFailure:
    """A failed task and its error."""

    host: str
    text: str


def application_rejected(master: str, text: str) -> UserError:
    """The error for a reachable master on which the application did not start."""
    first = next((line.strip() for line in text.splitlines() if "Exception" in line or "Error" in line), "")
    return UserError(
        f"The Spark master {master} did not take the application. {_shortened(first)}".strip(),
        f"It must be Spark {version('pyspark')}, the version of pyspark here, and reach this machine at "
        "spark_driver_host; if it requires a secret, set spark.authenticate.secret in spark_conf. If it accepted the "
        "application but started no executor, see the logs of its Workers.",
    )


def explain_failure(failure: TaskFailure, python: str) -> UserError:
    """The message for an error of a task on an executor."""
    host, text = failure.host, failure.text
    if found := re.search(r'Cannot run program "([^"]+)"', text):
        return UserError(
            f"The executor on {host} has no Python {found.group(1)!r}.",
            f"Install {python} there, or set spark_python to its Python.",
        )
    if "PYTHON_VERSION_MISMATCH" in text or "Python in worker has different version" in text:
        found = re.search(r"different version: ([\d.]+)", text)
        other = found.group(1) if found else "another version"
        return UserError(
            f"The executor on {host} runs Python {other}, and this machine {platform.python_version()}.",
            "Both must have the same minor version: set spark_python.",
        )
    if found := re.search(r"ModuleNotFoundError: No module named '([^']+)'", text):
        return UserError(
            f"The Python of the executor on {host} lacks the package {found.group(1)!r}.",
            f"Install penstock {version('penstock')} there, or leave spark_python empty, so that penstock sends it.",
        )
    if found := re.search(r"ImportError: (.+)", text):
        return UserError(
            f"The Python of the executor on {host} cannot load a package: {_shortened(found.group(1))}.",
            "The packages that penstock sends fit the system and processor of this machine only; otherwise install "
            "penstock there and set spark_python to that Python.",
        )
    if "InvalidClassException" in text or "serialVersionUID" in text or "NoSuchMethodError" in text:
        return UserError(
            f"The executor on {host} has another version of Spark than pyspark here ({version('pyspark')}).",
            "Run the same version on the cluster of spark_master.",
        )
    return UserError(
        f"A first task failed on the executor on {host}: {_shortened(text.strip().splitlines()[-1])}",
        "Check the executor's own log, and spark_conf.",
    )


def check_executors(session: SparkSession, settings: Settings, python: str) -> None:
    """Waits for executors and runs a job that imports what tasks need. Raises UserError if all tasks fail."""
    slots = _await_slots(session, settings)
    context = session.sparkContext
    tasks = min(slots, MOST_TASKS)
    seen: list[Any] = []

    def run() -> None:
        try:
            context.setJobGroup(GROUP, GROUP, interruptOnCancel=True)
            seen.extend(context.parallelize(range(tasks), tasks).mapPartitions(_describe).collect())
        except Py4JError as error:
            log.debug("the check of executors was cancelled", error=str(error).splitlines()[0])

    thread = threading.Thread(target=run, name="check executors", daemon=True)
    thread.start()
    deadline = time.monotonic() + PROBE_SECONDS
    failures: list[TaskFailure] = []
    while thread.is_alive() and len(failures) < FAILURES and time.monotonic() < deadline:
        thread.join(POLL_SECONDS)
        failures = list(_failures(session))
    if thread.is_alive():
        context.cancelJobGroup(GROUP)
    for failure in {one.host: one for one in failures}.values():
        log.error("an executor cannot run tasks", problem=str(explain_failure(failure, python)))
    if not seen:
        if failures:
            raise explain_failure(failures[0], python)
        raise UserError(
            f"Executors of {settings.spark_master} did not run a task within {PROBE_SECONDS:g} s.",
            "Executors must reach this machine: check spark_driver_host and spark_driver_bind.",
        )
    log.info("executors are ready", slots=slots, hosts=sorted({host for host, _ in seen}))


def _await_slots(session: SparkSession, settings: Settings) -> int:
    deadline = time.monotonic() + EXECUTOR_SECONDS
    while not (slots := watchdogs.count_slots(session)):
        if time.monotonic() > deadline:
            raise UserError(
                f"{settings.spark_master} started no executor within {EXECUTOR_SECONDS:g} s.",
                f"Each needs {settings.spark_executor_memory_mib} MiB (spark_executor_memory_mib) and "
                f"{settings.spark_executor_cores or 'all'} cores of a Worker (spark_executor_cores): the cluster may "
                "have less, or be used by others. See its web page.",
            )
        time.sleep(POLL_SECONDS)
    return slots


def _failures(session: SparkSession) -> Iterator[TaskFailure]:
    context = session.sparkContext
    tracker, store = context.statusTracker(), context._jsc.sc().statusStore()
    try:
        for job in tracker.getJobIdsForGroup(GROUP):
            info = tracker.getJobInfo(job)
            for stage in info.stageIds if info is not None else ():
                tasks = store.taskList(stage, 0, 1000)
                for number in range(tasks.size()):
                    task = tasks.apply(number)
                    if task.status() == "FAILED" and task.errorMessage().isDefined():
                        yield TaskFailure(str(task.host()), str(task.errorMessage().get()))
    except (Py4JError, OSError):
        return  # the stage does not exist yet


def _describe(_: Iterable[int]) -> Iterator[tuple[str, str]]:
    """Runs on an executor and imports what a dispatcher task imports."""
    import penstock.dispatcher.worker  # noqa: F401

    time.sleep(POLL_SECONDS)  # so that the other tasks run on other executors
    yield socket.gethostname(), platform.python_version()


def _shortened(text: str) -> str:
    return text.strip()[:300]
