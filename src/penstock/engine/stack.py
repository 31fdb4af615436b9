"""The stack of one data folder: its components, how they are started, recorded and stopped.

kafka ----+--> ingress ----+
          +--> pipeline    |  (router and dispatcher; its JVM starts while Kafka still does)
apiserver +--> control     |  (controllers and workloads)
                           +--> console (once all others are ready)
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import psutil

from penstock.engine import clock_watch, embedded_kafka, exposure_check, ports, running_stacks, spark
from penstock.engine.datadir import UMASK, DataDir, administrator_remark
from penstock.engine.history.scheduler import HistoryScheduler, without_missing_packages
from penstock.engine.jars import jar_cache
from penstock.engine.java import Java, find_java
from penstock.engine.processes.supervisor import Component, Observer, Supervisor, Watch
from penstock.engine.roles.health import endpoint_certificate
from penstock.engine.topics import topic_setup
from penstock.observability import exposition, metric_export
from penstock.settings import Settings

T = TypeVar("T")


class Screen(Observer, Protocol):
    """Shows the progress of a stack to the user."""

    def fetching(self, done: int, total: int, what: str) -> None:
        """Jars are being fetched."""

    def notice(self, text: str) -> None:
        """A notice about the whole stack."""

    def began(self, settings: Settings) -> None:
        """The ports are known and the components are about to start."""

    def ready(self, settings: Settings, seconds: float) -> None:
        """All components are ready."""

    def stopping(self) -> None:
        """The stack is stopping."""

    def log_line(self, component: str, line: str) -> None:
        """A line of a component's log, with --verbose."""


@dataclass(frozen=True)
class Prepared:
    """A stack that is ready to start: Java and jars are found, settings checked, the data folder locked."""

    settings: Settings
    """With absolute paths and real port numbers."""
    settings_file: Path
    data: DataDir
    jars: jar_cache.Jars
    java: Java


def prepare(settings: Settings, screen: Screen) -> Prepared:
    """Prepares the start of a stack. Raises UserError for what the user can fix. May be interrupted at any time."""
    settings = settings.model_copy(update={"data_dir": settings.data_dir.expanduser().absolute()})
    exposure_check.check(settings)
    spark.check(settings)
    topic_setup.check_security(settings)
    settings, without_history = without_missing_packages(settings)
    java = find_java()
    rights_of_files = os.umask(UMASK)
    data = DataDir(settings.data_dir)
    remarks = data.open(settings)
    try:
        data.end_leftovers()
        settings = ports.resolve(settings)  # before anything is downloaded
        jars = _jars(settings, java, screen, rights_of_files)
        data.clear_metrics()
        embedded_kafka.forget_transactions(settings)
        if settings.kafka is not None:
            topic_setup.ensure(settings)
        for remark in (administrator_remark(), *remarks, *without_history):
            if remark is not None:
                screen.notice(remark)
        return Prepared(settings, data.write_settings(settings), data, jars, java)
    except BaseException:
        data.close()
        raise


def _jars(settings: Settings, java: Java, screen: Screen, rights_of_files: int) -> jar_cache.Jars:
    """The jars, which other users may read, unlike the data folder."""
    os.umask(rights_of_files)
    try:
        return jar_cache.resolve(settings, java, screen.fetching)
    finally:
        os.umask(UMASK)


async def run(prepared: Prepared, screen: Screen, stop: asyncio.Event) -> None:
    """Runs the stack until `stop` is set. Raises UserError if a component cannot be started."""
    settings = prepared.settings
    screen.began(settings)
    running_stacks.enter(settings.data_dir)
    record = StackRecord(prepared.data, settings, screen)
    supervisor = Supervisor(
        components(prepared),
        settings.data_dir / "logs",
        environment(settings, prepared.java),
        record,
        drain_seconds=settings.drain_seconds,
        echo=screen.log_line if settings.verbose else None,
    )
    record.watches = dict(supervisor.watches)
    stopping = asyncio.Event()
    tasks = [asyncio.create_task(_stop_when_asked(prepared, record, stop, stopping))]
    if settings.kafka is None:
        tasks.append(asyncio.create_task(clock_watch.watch(settings, screen.notice)))
    try:
        with _metrics(settings):
            await _with_history(prepared, record, stopping, supervisor.run(stopping, record.all_ready))
    finally:
        for task in tasks:
            task.cancel()
        record.write(state="stopped")
        running_stacks.leave(settings.data_dir)
        prepared.data.close()


async def run_with_kafka_only(prepared: Prepared, screen: Screen, work: Callable[[Settings], T]) -> T:
    """Runs only the embedded Kafka while `work` runs in a thread; returns its result.

    Raises UserError if Kafka cannot be started.
    """
    settings, up, done = prepared.settings, asyncio.Event(), asyncio.Event()
    record = StackRecord(prepared.data, settings, screen)
    only = [one for one in components(prepared) if one.name == "kafka"]
    supervisor = Supervisor(only, settings.data_dir / "logs", environment(settings, prepared.java), record)
    record.watches = dict(supervisor.watches)

    async def working() -> T:
        await up.wait()
        try:
            return await asyncio.to_thread(work, settings)
        finally:
            done.set()

    found = asyncio.create_task(working())
    try:
        await supervisor.run(done, up.set)
        return await found
    finally:
        found.cancel()
        record.write(state="stopped")
        prepared.data.close()


async def _with_history(
    prepared: Prepared, record: StackRecord, stopping: asyncio.Event, running: Coroutine[Any, Any, None]
) -> None:
    """Runs the stack, and with it the scheduler of the history writer."""
    if not prepared.settings.history:
        await running
        return
    env = environment(prepared.settings, prepared.java)
    scheduler = HistoryScheduler(prepared.settings, prepared.settings_file, env, record)
    scheduling = asyncio.create_task(scheduler.run(stopping, record.was_ready))
    try:
        await running
    finally:
        stopping.set()
        await scheduling


async def _stop_when_asked(
    prepared: Prepared, record: StackRecord, stop: asyncio.Event, stopping: asyncio.Event
) -> None:
    """Waits for `stop`, creates missing class archives while everything still runs, then stops the supervisor."""
    await stop.wait()
    record.stopping()
    try:
        if record.ready:
            await _make_archives(prepared, record.watches)
    finally:
        stopping.set()


async def _make_archives(prepared: Prepared, watches: dict[str, Watch]) -> None:
    """Creates the missing class archives. The JVMs are paused meanwhile, so this is done last."""
    settings, jars, java = prepared.settings, prepared.jars, prepared.java
    archives = {
        "kafka": embedded_kafka.archive(settings, jars, java),
        "pipeline": spark.archive(settings, jars, java.home),
    }
    for name, archive in archives.items():
        child = watches[name].child if name in watches else None
        pid = child.java_pid() if child is not None else None
        if pid is not None:
            await asyncio.to_thread(archive.make, pid)


@contextmanager
def _metrics(settings: Settings) -> Iterator[None]:
    """Serves the metrics of all processes from a thread of the supervisor, and exports them if configured."""
    if not settings.metrics:
        yield
        return
    folder = settings.data_dir / "metrics"
    server, thread = exposition.serve(settings.host, settings.metrics_port, folder, endpoint_certificate(settings))
    try:
        with metric_export.exporting(folder):
            yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=2)


def environment(settings: Settings, java: Java) -> dict[str, str]:
    """The environment of the child processes."""
    env = dict(os.environ)
    env |= {"JAVA_HOME": str(java.home), "PYTHONUNBUFFERED": "1", "MALLOC_ARENA_MAX": "2"}
    # Otherwise a file such as `profile.py` in the current folder would be imported.
    env["PYTHONSAFEPATH"] = "1"
    # Child processes read the resolved settings from a file.
    env = {name: value for name, value in env.items() if not name.startswith("PENSTOCK_")}
    if settings.metrics:
        env["PROMETHEUS_MULTIPROC_DIR"] = str(settings.data_dir / "metrics")
    return env


def components(prepared: Prepared) -> list[Component]:
    """The components of the stack."""
    settings, settings_file = prepared.settings, prepared.settings_file

    def python(name: str) -> Callable[[], Any]:
        async def command() -> list[str]:
            return [sys.executable, "-m", "penstock.engine.child", name, "--settings", str(settings_file)]

        return command

    async def kafka_command() -> list[str]:
        return await asyncio.to_thread(embedded_kafka.prepare, settings, prepared.jars, prepared.java)

    async def kafka_ready() -> dict[str, Any]:
        await embedded_kafka.wait_until_ready(settings)
        await asyncio.to_thread(topic_setup.ensure, settings)
        return {"address": settings.bootstrap}

    log = () if settings.kafka is not None else ("kafka",)
    api = () if settings.kubeconfig is not None else ("apiserver",)
    stack = []
    if log:
        kafka_archive = embedded_kafka.archive(settings, prepared.jars, prepared.java)
        stack.append(
            Component("kafka", kafka_command, stage=0, probe=kafka_ready, before_last_try=kafka_archive.discard)
        )
    if api:
        stack.append(Component("apiserver", python("apiserver"), stage=0))
    several = settings.ingress_processes > 1
    names = [f"ingress-{number + 1}" if several else "ingress" for number in range(settings.ingress_processes)]
    stack += [Component(name, python(name), needs=log, stage=1) for name in names]
    stack.append(Component("control", python("control"), needs=(*log, *api), stage=1))
    spark_archive = spark.archive(settings, prepared.jars, prepared.java.home)
    stack.append(
        Component(
            *("pipeline", python("pipeline"), log, 2),
            early=True,
            start_seconds=180,
            before_last_try=spark_archive.discard,
        )
    )
    if settings.console:
        stack.append(Component("console", python("console"), needs=api, stage=2, late=True))
    return stack


class StackRecord:
    """Passes events of the components to the screen and keeps the record in the data folder."""

    def __init__(self, data: DataDir, settings: Settings, screen: Screen) -> None:
        self.watches: dict[str, Watch] = {}
        self._data, self._settings, self._screen = data, settings, screen
        self._started = time.time()
        self._state = "starting"
        files = embedded_kafka.client_files(settings) if settings.kafka is None else {}
        self._kafka_client_files = {kind: str(path) for kind, path in files.items()}
        self._written = True
        self.was_ready = asyncio.Event()

    @property
    def ready(self) -> bool:
        """Whether all components have been ready."""
        return self._state == "ready"

    def changed(self, watch: Watch) -> None:
        """A component changed."""
        self._screen.changed(watch)
        self.write()

    def remark(self, watch: Watch, text: str) -> None:
        """A notice about a component."""
        self._screen.remark(watch, text)

    def news(self, text: str) -> None:
        """A notice about the user's own objects."""
        self._screen.news(text)

    def stopping(self) -> None:
        """The user has stopped the stack."""
        self._screen.stopping()

    def all_ready(self) -> None:
        """All components are ready. The time is measured from the start of this process."""
        self.write(state="ready")
        self.was_ready.set()
        self._screen.ready(self._settings, time.time() - psutil.Process().create_time())

    def write(self, state: str | None = None) -> None:
        """Writes the record. If that fails, as on a full disk, the stack continues with an outdated record."""
        self._state = state or self._state
        fields = [port.field for port in ports.needed(self._settings)]
        try:
            self._data.write_stack(
                {
                    "state": self._state,
                    "pid": os.getpid(),
                    "started": self._started,
                    "host": self._settings.host,
                    "ports": {field: getattr(self._settings, field) for field in fields},
                    "bootstrap": self._settings.bootstrap,
                    "kafka_client_files": self._kafka_client_files,
                    "components": {name: _entry(watch) for name, watch in self.watches.items()},
                }
            )
        except OSError as error:
            if self._written:
                self._screen.notice(f"Cannot write the state for penstock status: {error}.")
            self._written = False
        else:
            self._written = True


def _entry(watch: Watch) -> dict[str, Any]:
    return {
        "state": watch.state,
        "since": watch.since,
        "pid": watch.child.pid if watch.child else None,
        "created": watch.child.created if watch.child else None,
        "restarts": watch.restarts,
        "details": watch.details,
    }
