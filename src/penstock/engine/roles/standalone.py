"""Runs a role as a process without a supervisor, as started by systemd, by Kubernetes or in a terminal.

It logs JSON lines to standard output, serves probes on its health port, and stops gracefully on SIGTERM. Errors that
the user has to fix end the process with one message. An unreachable Kafka may only be starting, so the process waits
for it with `/readyz` at 503: if it exited, it would be restarted with increasing delays. After `kafka_wait_seconds` it
exits, so that a wrong address is visible as a failed unit and the next process reads settings and secrets again."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import structlog

from penstock.engine import datadir, exposure_check, java, ports
from penstock.engine.datadir import UMASK, check_owner
from penstock.engine.jars import jar_cache
from penstock.engine.roles import health
from penstock.engine.roles.claim import name_standalone_instance
from penstock.engine.roles.table import Role, loop_factory
from penstock.observability.logs import configure_logging
from penstock.runtime.errors import UserError
from penstock.runtime.lifecycle import Lifecycle, first
from penstock.settings import IN_CLUSTER, SERVICE_ACCOUNT, Settings

if TYPE_CHECKING:
    from penstock.settings import Settings


log = structlog.get_logger()


async def run_role(role: Role, settings: Settings, lifecycle: Lifecycle, released: asyncio.Event) -> int:
    """Runs the role until it ends; the exit code of the process."""
    log.info("starting", pid=os.getpid())
    try:
        await role.run(settings, lifecycle, released)
    except UserError as problem:
        log.error(problem.what, remedy=problem.remedy)
        lifecycle.fail(str(problem))
        return 1
    except Exception as error:  # the process ends; the reason is sent to the supervisor
        log.exception("the component failed")
        lifecycle.fail(_reason(error))
        return 1
    if not lifecycle.stopping.is_set():
        lifecycle.fail("it ended unexpectedly")
        return 1
    log.info("ended")
    return 0


def exit_on_thread_failure(lifecycle: Lifecycle) -> None:
    """Exits when a thread without an owner ends with an exception.

    Callbacks of the event loop are not included: an error of a single connection looks the same as a defect.
    """

    def ended(arguments: threading.ExceptHookArgs) -> None:
        error = arguments.exc_value
        if error is None:
            return
        what = f"the thread {arguments.thread.name if arguments.thread else '?'}"
        log.error(f"{what} ended by an exception", exc_info=error)
        lifecycle.fail(f"{what} ended by {_reason(error)}")
        sys.stdout.flush()
        os._exit(1)

    threading.excepthook = ended


def _reason(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}".splitlines()[0][:500]


HEARTBEAT_SECONDS = 1.0
LOG_SECONDS = 30.0
"""Interval of log lines about an unreachable Kafka."""
RETRY_SECONDS = 1.0


def run(role: Role, settings: Settings) -> int:
    """Runs the role until SIGTERM; the exit code. Raises UserError for what the user can fix."""
    settings = prepare(role, settings)
    name_standalone_instance(role.name)
    configure_logging(role.name, "debug" if settings.verbose else "info", stream=sys.stdout)
    with _metrics_folder(role, settings) as metrics, asyncio.Runner(loop_factory=loop_factory(role)) as runner:
        code = runner.run(_run(role, settings, metrics))
    sys.stdout.flush()
    # Without waiting for threads of libraries (librdkafka, py4j).
    os._exit(code)


def prepare(role: Role, settings: Settings) -> Settings:
    """Checks the settings for the role, creates its folders and fetches the jars; the resolved settings."""
    if role.uses_kafka and settings.kafka is None:
        raise UserError(
            f"`penstock {role.name}` needs an existing Kafka.",
            "Set --kafka HOST:PORT, PENSTOCK_KAFKA, or kafka in penstock.toml. `penstock dev` starts its own Kafka.",
        )
    settings = settings.model_copy(update={"data_dir": settings.data_dir.expanduser().absolute()})
    if datadir.runs(settings.data_dir):
        raise UserError(
            f"A stack of `penstock dev` runs on the data folder {settings.data_dir}.",
            "Stop it, or start this role with another --data-dir.",
        )
    if role.uses_api:
        _check_kubeconfig(settings.kubeconfig)
    if role.takes_events:
        exposure_check.check(settings)
    if settings.api_port == 0:
        settings = settings.model_copy(update={"api_port": ports.free_ports(1)[0]})
    if role.uses_spark:
        found = java.find_java()
        os.environ["JAVA_HOME"] = str(found.home)
        jar_cache.resolve(settings, found)
    os.umask(UMASK)
    _make_folders(settings.data_dir)
    return settings


def _check_kubeconfig(kubeconfig: Path | None) -> None:
    if kubeconfig == IN_CLUSTER and not (SERVICE_ACCOUNT.is_dir() and "KUBERNETES_SERVICE_HOST" in os.environ):
        raise UserError(
            f"kubeconfig is in-cluster, but this is not a Pod with a ServiceAccount: {SERVICE_ACCOUNT} does not exist.",
            "Name a kubeconfig file, or let Kubernetes mount the token (automountServiceAccountToken).",
        )
    if kubeconfig is not None and kubeconfig != IN_CLUSTER and not kubeconfig.is_file():
        raise UserError(f"The kubeconfig {kubeconfig} does not exist.", "Check the setting `kubeconfig`.")


def _make_folders(root: Path) -> None:
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_owner(root)
        for name in datadir.FOLDERS:
            (root / name).mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"The data folder {root} cannot be used: {error.strerror} ({error.filename}).",
            "Choose another with --data-dir.",
        ) from None


@contextlib.contextmanager
def _metrics_folder(role: Role, settings: Settings) -> Iterator[Path | None]:
    """The metrics folder of this process and its children; set before the import of prometheus_client, which reads
    it."""
    if not settings.metrics:
        yield None
        return
    root = settings.data_dir / "metrics"
    for left in root.glob("*-*"):
        if left.is_dir() and not psutil.pid_exists(int(left.name.rpartition("-")[2])):
            shutil.rmtree(left, ignore_errors=True)
    folder = root / f"{role.name}-{os.getpid()}"
    shutil.rmtree(folder, ignore_errors=True)  # of an earlier process 1 in a container
    folder.mkdir(mode=0o700)
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(folder)
    try:
        from penstock.observability.metric_export import exporting

        with exporting(folder):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _run(role: Role, settings: Settings, metrics: Path | None) -> int:
    lifecycle, released = Lifecycle(), asyncio.Event()
    exit_on_thread_failure(lifecycle)
    for signum in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signum, lifecycle.stopping.set)
    state = health.Health(lifecycle, metrics)
    wanted = role.health_port if settings.health_port is None else settings.health_port
    from penstock.engine.roles.health import endpoint_certificate  # cryptography, which few roles need

    with health.serving(state, settings.host, wanted, endpoint_certificate(settings)) as port:
        log.info("serving probes", url=f"{settings.scheme}://{settings.host}:{port}", paths="/livez /readyz /metrics")
        beating = asyncio.create_task(_heartbeats(state))
        releasing = asyncio.create_task(_release(role, settings, lifecycle, released))
        living = asyncio.create_task(run_role(role, settings, lifecycle, released))
        try:
            await asyncio.wait([releasing, living], return_when=asyncio.FIRST_COMPLETED)
            if releasing.done():
                releasing.result()
            return await living
        finally:
            for task in (beating, releasing, living):
                task.cancel()


async def _heartbeats(state: health.Health) -> None:
    while True:
        state.heartbeat()
        await asyncio.sleep(HEARTBEAT_SECONDS)


async def _release(role: Role, settings: Settings, lifecycle: Lifecycle, released: asyncio.Event) -> None:
    """Lets the role start when Kafka is reachable and has the topics."""
    if role.uses_kafka:
        await first(_kafka_ready(settings, lifecycle), lifecycle.stopping.wait())
    released.set()


async def _kafka_ready(settings: Settings, lifecycle: Lifecycle) -> None:
    from penstock.engine.topics import topic_setup

    began, logged = time.monotonic(), -LOG_SECONDS
    while (problem := await asyncio.to_thread(unreachable, settings)) is not None:
        waited = time.monotonic() - began
        if waited >= settings.kafka_wait_seconds:
            raise UserError(
                f"Kafka at {settings.bootstrap} was not reachable within {waited:.0f} s ({problem}).",
                "Check `kafka`, `kafka_conf` if it requires TLS or a password, and whether it runs.",
            )
        if waited - logged >= LOG_SECONDS:
            logged = waited
            log.warning(
                "Kafka is unreachable; waiting for it. Check the setting `kafka`, and `kafka_conf` if it requires TLS "
                "or a password",
                bootstrap=settings.bootstrap,
                error=problem,
                gives_up_after_seconds=settings.kafka_wait_seconds,
            )
        lifecycle.waits_for = f"Kafka at {settings.bootstrap} does not respond"
        await asyncio.sleep(RETRY_SECONDS)
    await asyncio.to_thread(topic_setup.ensure, settings)
    lifecycle.waits_for = "it starts"


def unreachable(settings: Settings) -> str | None:
    """Why Kafka is unreachable, or None."""
    from penstock.kafka.admin import NotDone, TopicAdmin

    try:
        TopicAdmin(settings).brokers(5.0)
    except NotDone as error:
        return str(error)
    return None
