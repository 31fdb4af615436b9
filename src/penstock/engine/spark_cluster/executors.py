"""Whether executors run the Python, the packages and the Spark that tasks need, looked at before tasks depend on it.

Spark tries a task that fails on another executor, a thousand times, and what it logs of each is a page. Here the first
pages are read and become one sentence that names the setting to look at.
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
"""How long the first executor may take: Kubernetes may have to fetch an image."""
LOOK_SECONDS = 0.2
PROBE_SECONDS = 120.0
FAILURES = 8
"""Tasks that may fail before the look is given up; a single bad executor among good ones makes a few."""
MOST_TASKS = 32
GROUP = "penstock looks at executors"


@dataclass(frozen=True)
class TaskFailure:
    """What a task said that failed."""

    host: str
    text: str


def not_taken(master: str, text: str) -> UserError:
    """The master answers, and the application did not start there."""
    first = next((line.strip() for line in text.splitlines() if "Exception" in line or "Error" in line), "")
    return UserError(
        f"The Spark master {master} did not start the application. {_shortened(first)}".strip(),
        f"It must run Spark {version('pyspark')}, like pyspark on this machine, and reach this machine at "
        "spark_driver_host; if it requires a secret, set spark.authenticate.secret in spark_conf. If the application "
        "was registered but got no executor, see the logs of the Workers.",
    )


def explained(failure: TaskFailure, python: str) -> UserError:
    """What is wrong with an executor, by what a task that failed there said."""
    host, text = failure.host, failure.text
    if found := re.search(r'Cannot run program "([^"]+)"', text):
        return UserError(
            f"The executor on {host} has no Python {found.group(1)!r}.",
            f"Install {python} there, or set spark_python to its path.",
        )
    if "PYTHON_VERSION_MISMATCH" in text or "Python in worker has different version" in text:
        found = re.search(r"different version: ([\d.]+)", text)
        other = found.group(1) if found else "another version"
        return UserError(
            f"The executor on {host} runs Python {other}, and this machine {platform.python_version()}.",
            "Both must have the same minor version: set spark_python to the right one.",
        )
    if found := re.search(r"ModuleNotFoundError: No module named '([^']+)'", text):
        return UserError(
            f"The Python of the executor on {host} lacks the package {found.group(1)!r}.",
            f"Install penstock {version('penstock')} there, or leave spark_python empty to send the packages to it.",
        )
    if found := re.search(r"ImportError: (.+)", text):
        return UserError(
            f"The Python of the executor on {host} cannot load a package: {_shortened(found.group(1))}.",
            "Packages sent to executors fit the system and processor of this machine only; for others install "
            "penstock there and set spark_python to that Python.",
        )
    if "InvalidClassException" in text or "serialVersionUID" in text or "NoSuchMethodError" in text:
        return UserError(
            f"The executor on {host} runs another version of Spark than this machine ({version('pyspark')}).",
            "Run the same version on the cluster that spark_master names.",
        )
    return UserError(
        f"The test task failed on the executor on {host}: {_shortened(text.strip().splitlines()[-1])}",
        "Check the executor's log and spark_conf.",
    )


def look(session: SparkSession, settings: Settings, python: str) -> None:
    """Waits for executors and tries what tasks need on them. Raises UserError where none is of use."""
    there = _await_slots(session, settings)
    context = session.sparkContext
    tasks = min(there, MOST_TASKS)
    seen: list[Any] = []

    def run() -> None:
        try:
            context.setJobGroup(GROUP, GROUP, interruptOnCancel=True)
            seen.extend(context.parallelize(range(tasks), tasks).mapPartitions(_describe).collect())
        except Py4JError as error:
            log.debug("the look at executors was ended", error=str(error).splitlines()[0])

    thread = threading.Thread(target=run, name="look at executors", daemon=True)
    thread.start()
    deadline = time.monotonic() + PROBE_SECONDS
    failures: list[TaskFailure] = []
    while thread.is_alive() and len(failures) < FAILURES and time.monotonic() < deadline:
        thread.join(LOOK_SECONDS)
        failures = list(_failures(session))
    if thread.is_alive():
        context.cancelJobGroup(GROUP)
    for failure in {one.host: one for one in failures}.values():
        log.error("an executor is of no use", problem=str(explained(failure, python)))
    if not seen:
        if failures:
            raise explained(failures[0], python)
        raise UserError(
            f"Executors of {settings.spark_master} did not run a task within {PROBE_SECONDS:g} s.",
            "Executors must be able to reach this machine: check spark_driver_host and spark_driver_bind.",
        )
    log.info("executors are of use", slots=there, hosts=sorted({host for host, _ in seen}))


def _await_slots(session: SparkSession, settings: Settings) -> int:
    deadline = time.monotonic() + EXECUTOR_SECONDS
    while not (there := watchdogs.count(session)):
        if time.monotonic() > deadline:
            raise UserError(
                f"{settings.spark_master} provided no executor within {EXECUTOR_SECONDS:g} s.",
                f"Each requests {settings.spark_executor_memory_mib} MiB (spark_executor_memory_mib) and "
                f"{settings.spark_executor_cores or 'all'} cores (spark_executor_cores): the cluster may have "
                "less, or all its resources may be in use. Check the page of the master.",
            )
        time.sleep(LOOK_SECONDS)
    return there


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
        return  # the stage is not known yet


def _describe(_: Iterable[int]) -> Iterator[tuple[str, str]]:
    """Runs on an executor, and imports there what a dispatcher task imports."""
    import penstock.dispatcher.worker  # noqa: F401

    time.sleep(LOOK_SECONDS)  # so that the others go to other executors
    yield socket.gethostname(), platform.python_version()


def _shortened(text: str) -> str:
    return text.strip()[:300]
