"""A role as a process of its own, without a supervisor: what systemd, a container or a person at a terminal starts.

It logs JSON lines to standard output, answers probes on its health port, and ends in order on SIGTERM. What is wrong
for good ends it with one sentence. A Kafka that does not answer may only be late, as everything is when a cluster comes
up, so it is waited for with `/readyz` at 503: a process that ended instead would be held back longer and longer by
whoever starts it again. The wait has an end all the same (`kafka_wait_seconds`), so that a wrong address becomes a
failed unit that somebody sees, and a new process that reads its settings and secrets anew.
"""

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

from penstock.engine import datadir, exposure_check, jars, java, ports
from penstock.engine.datadir import UMASK, check_owner
from penstock.engine.roles import health
from penstock.engine.roles.claim import name_alone
from penstock.engine.roles.table import Role, loop_factory
from penstock.observability.logs import configure_logging
from penstock.runtime.errors import UserError
from penstock.runtime.lifecycle import Lifecycle, first
from penstock.settings import IN_CLUSTER, SERVICE_ACCOUNT, Settings

if TYPE_CHECKING:
    from penstock.settings import Settings


# One life of a role in its process, from the first line of its log to the exit code.

log = structlog.get_logger()


async def live(role: Role, settings: Settings, lifecycle: Lifecycle, released: asyncio.Event) -> int:
    """Runs the role to its end; the exit code of the process."""
    log.info("starting", pid=os.getpid())
    try:
        await role.run(settings, lifecycle, released)
    except UserError as problem:
        log.error(problem.what, remedy=problem.remedy)
        lifecycle.fail(str(problem))
        return 1
    except Exception as error:  # the process ends; its supervisor is shown why
        log.exception("the component failed")
        lifecycle.fail(_reason(error))
        return 1
    if not lifecycle.stopping.is_set():
        lifecycle.fail("it ended without being told to")
        return 1
    log.info("ended")
    return 0


def end_with_threads(lifecycle: Lifecycle) -> None:
    """Ends this process when a thread ends by an exception that no owner took. Callbacks have owners in their rooms:
    here an error of one hostile connection could not be told from a defect."""

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


TURN_SECONDS = 1.0
TELL_SECONDS = 30.0
"""Between two lines about a Kafka that is waited for."""
RETRY_SECONDS = 1.0


def run(role: Role, settings: Settings) -> int:
    """Runs the role until SIGTERM; the exit code. Raises UserError for what the user can put right."""
    settings = prepare(role, settings)
    name_alone(role.name)
    configure_logging(role.name, "debug" if settings.verbose else "info", stream=sys.stdout)
    with _metrics_folder(role, settings) as metrics, asyncio.Runner(loop_factory=loop_factory(role)) as runner:
        code = runner.run(_run(role, settings, metrics))
    sys.stdout.flush()
    # Threads of libraries (librdkafka, py4j) must not hold up a process whose role has ended.
    os._exit(code)


def prepare(role: Role, settings: Settings) -> Settings:
    """The settings as the role runs with them: with a folder that is there, and everything found that it needs."""
    if role.uses_kafka and settings.kafka is None:
        raise UserError(
            f"`penstock {role.name}` requires an existing Kafka.",
            "Set --kafka HOST:PORT, PENSTOCK_KAFKA, or kafka in penstock.toml. Only `penstock dev` starts one.",
        )
    settings = settings.model_copy(update={"data_dir": settings.data_dir.expanduser().absolute()})
    if datadir.runs(settings.data_dir):
        raise UserError(
            f"A stack of `penstock dev` is running on the data folder {settings.data_dir}.",
            "Stop it, or start this role with another --data-dir.",
        )
    if role.uses_api:
        _check_kubeconfig(settings.kubeconfig)
    if role.takes_events:
        exposure_check.check(settings)
    if settings.api_port == 0:
        settings = settings.model_copy(update={"api_port": ports.free_ports(1)[0]})
    if role.uses_spark:
        found = java.find()
        os.environ["JAVA_HOME"] = str(found.home)
        jars.resolve(settings, found)
    os.umask(UMASK)
    _make_folders(settings.data_dir)
    return settings


def _check_kubeconfig(kubeconfig: Path | None) -> None:
    if kubeconfig == IN_CLUSTER and not (SERVICE_ACCOUNT.is_dir() and "KUBERNETES_SERVICE_HOST" in os.environ):
        raise UserError(
            f"kubeconfig is in-cluster, but this is not a Pod with a ServiceAccount: {SERVICE_ACCOUNT} is missing.",
            "Name a kubeconfig file, or let Kubernetes mount the token (automountServiceAccountToken).",
        )
    if kubeconfig is not None and kubeconfig != IN_CLUSTER and not kubeconfig.is_file():
        raise UserError(f"The kubeconfig {kubeconfig} does not exist.", "Check the setting kubeconfig.")


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
    """Where this process and those it starts count; known before prometheus_client is imported, which looks once."""
    if not settings.metrics:
        yield None
        return
    root = settings.data_dir / "metrics"
    for left in root.glob("*-*"):
        if left.is_dir() and not psutil.pid_exists(int(left.name.rpartition("-")[2])):
            shutil.rmtree(left, ignore_errors=True)
    folder = root / f"{role.name}-{os.getpid()}"
    shutil.rmtree(folder, ignore_errors=True)  # of a container's process 1 before
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
    end_with_threads(lifecycle)
    for signum in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signum, lifecycle.stopping.set)
    state = health.Health(lifecycle, metrics)
    wanted = role.health_port if settings.health_port is None else settings.health_port
    from penstock.engine.endpoint_tls import certificate_for  # cryptography, which few roles need

    with health.serving(state, settings.host, wanted, certificate_for(settings)) as port:
        log.info("answering probes", url=f"{settings.scheme}://{settings.host}:{port}", paths="/livez /readyz /metrics")
        turning = asyncio.create_task(_turn(state))
        releasing = asyncio.create_task(_release(role, settings, lifecycle, released))
        living = asyncio.create_task(live(role, settings, lifecycle, released))
        try:
            await asyncio.wait([releasing, living], return_when=asyncio.FIRST_COMPLETED)
            if releasing.done():
                releasing.result()
            return await living
        finally:
            for task in (turning, releasing, living):
                task.cancel()


async def _turn(state: health.Health) -> None:
    while True:
        state.turned()
        await asyncio.sleep(TURN_SECONDS)


async def _release(role: Role, settings: Settings, lifecycle: Lifecycle, released: asyncio.Event) -> None:
    """Lets the role begin once Kafka is there, with the topics that it needs."""
    if role.uses_kafka:
        await first(_kafka_ready(settings, lifecycle), lifecycle.stopping.wait())
    released.set()


async def _kafka_ready(settings: Settings, lifecycle: Lifecycle) -> None:
    from penstock.engine.topics import setup as topic_setup

    began, told = time.monotonic(), -TELL_SECONDS
    while (problem := await asyncio.to_thread(unreachable, settings)) is not None:
        waited = time.monotonic() - began
        if waited >= settings.kafka_wait_seconds:
            raise UserError(
                f"Kafka at {settings.bootstrap} was unreachable for {waited:.0f} s ({problem}).",
                "Check that it runs, the setting kafka, and kafka_conf if it requires TLS or a password.",
            )
        if waited - told >= TELL_SECONDS:
            told = waited
            log.warning(
                "Kafka does not answer; waiting for it. Look at the setting `kafka`, and at `kafka_conf` if it asks "
                "for TLS or a password",
                bootstrap=settings.bootstrap,
                error=problem,
                gives_up_after_seconds=settings.kafka_wait_seconds,
            )
        lifecycle.waits_for = f"Kafka at {settings.bootstrap} does not answer"
        await asyncio.sleep(RETRY_SECONDS)
    await asyncio.to_thread(topic_setup.ensure, settings)
    lifecycle.waits_for = "it starts"


def unreachable(settings: Settings) -> str | None:
    """Why Kafka does not answer; None where it does."""
    from penstock.kafka.admin import NotDone, TopicAdmin

    try:
        TopicAdmin(settings).brokers(5.0)
    except NotDone as error:
        return str(error)
    return None
