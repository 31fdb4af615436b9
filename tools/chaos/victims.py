"""The processes of a stack, by what they do."""

from __future__ import annotations

from typing import Any

import psutil

from tools.chaos.plan import COMPONENTS, DISPATCHER_WORKER, PYSPARK_DAEMON, SPARK_JVM, SUPERVISOR

Record = dict[str, Any]
"""What runs, as the supervisor writes it to `run/stack.json`."""


def find(victim: str, record: Record) -> psutil.Process | None:
    """The process of this name as it runs now; None while there is none."""
    try:
        return _find(victim, record)
    except psutil.Error:
        return None  # it ended while it was looked for


def _find(victim: str, record: Record) -> psutil.Process | None:
    if victim == SUPERVISOR:
        return psutil.Process(record["pid"]) if "pid" in record else None
    if victim in COMPONENTS:
        return component(record, victim)
    pipeline = component(record, "pipeline")
    jvm = None if pipeline is None else spark_jvm(pipeline)
    if victim == SPARK_JVM or jvm is None:
        return jvm
    workers = dispatcher_workers(jvm)
    if not workers:
        return None
    assert victim in (PYSPARK_DAEMON, DISPATCHER_WORKER), f"there is no process {victim!r}"
    return workers[-1] if victim == DISPATCHER_WORKER else workers[-1].parent()


def component(record: Record, name: str) -> psutil.Process | None:
    """The process of a component; None while it is not there."""
    entry = record.get("components", {}).get(name, {})
    if not entry.get("pid"):
        return None
    process = psutil.Process(entry["pid"])
    return process if alive(process) and abs(process.create_time() - entry["created"]) < 1 else None


def spark_jvm(pipeline: psutil.Process) -> psutil.Process | None:
    """The JVM that the pipeline's driver has started."""
    return next((child for child in pipeline.children(recursive=True) if child.name() == "java"), None)


def dispatcher_workers(jvm: psutil.Process) -> list[psutil.Process]:
    """The Python processes that deliver. The JVM's children are daemons that fork them; it may keep one without any."""
    daemons = [child for child in jvm.children() if alive(child)]
    return [worker for daemon in daemons for worker in daemon.children() if alive(worker)]


def family(process: psutil.Process) -> list[psutil.Process]:
    """The process and everything below it."""
    try:
        return [process, *process.children(recursive=True)]
    except psutil.Error:
        return [process]


def alive(process: psutil.Process) -> bool:
    """Whether it runs or is frozen; one that waits to be buried does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
