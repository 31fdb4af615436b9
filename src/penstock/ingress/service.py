"""The ingress component: HTTP in, `penstock.events` out. Several processes of it may share one port."""

from __future__ import annotations

import asyncio
import contextlib
import os

import structlog

from penstock.contract.snapshot import Snapshot
from penstock.ingress.app import Ingress
from penstock.ingress.disk import DiskWatch
from penstock.ingress.event_log import EventLog
from penstock.ingress.kafka_watch import KafkaWatch
from penstock.ingress.server import Server, shared_socket
from penstock.ingress.targets import TargetTable
from penstock.lifecycle import Lifecycle, settle_garbage
from penstock.log.reporter import Reporter
from penstock.log.table import SnapshotFollower
from penstock.observability import metrics, trace
from penstock.observability.instruments import record_metrics
from penstock.settings import Settings

log = structlog.get_logger()


async def run(settings: Settings, lifecycle: Lifecycle) -> None:
    """Serves until `lifecycle.stopping`; then lets every request end and everything pending be confirmed."""
    record_metrics(settings.metrics)
    settle_garbage()
    instance = os.environ.get("PENSTOCK_INSTANCE") or f"ingress-{os.getpid()}"
    listening = shared_socket(settings.host, settings.port)
    tracer = trace.configure("penstock-ingress")
    # The embedded Kafka writes to the data folder; somebody else's Kafka looks after its own disk.
    disk = DiskWatch(settings.data_dir, settings.min_free_disk_mib if settings.kafka is None else 0)
    event_log = EventLog(settings)
    kafka = KafkaWatch(event_log)
    app = Ingress(settings, event_log, disk, kafka, tracer)
    server = Server(app, settings)
    reporter = Reporter(settings.bootstrap, "ingress", instance)
    following = _Following(app, reporter)
    follower = SnapshotFollower(settings.bootstrap, following.announce)
    watching = [
        asyncio.create_task(disk.run(), name="disk watch"),
        asyncio.create_task(kafka.run(), name="Kafka watch"),
    ]
    try:
        await server.start(listening)
        follower.start()
        await _first(following.caught_up, lifecycle.stopping)
        if following.caught_up.is_set():
            port = listening.getsockname()[1]
            log.info("accepting events", host=settings.host, port=port, instance=instance)
            lifecycle.ready(address=f"http://{settings.host}:{port}", instance=instance)
        await lifecycle.stopping.wait()
    finally:
        await server.end()
        left = await event_log.close(settings.drain_seconds)
        if left:
            log.error("events without a confirmation at the end; their senders got no 202", events=left)
        for task in watching:
            task.cancel()
        await asyncio.gather(*watching, return_exceptions=True)
        for close in (follower.stop, reporter.close, tracer.close):
            await asyncio.to_thread(close)


class _Following:
    """Brings snapshots from the follower's thread to the application."""

    def __init__(self, app: Ingress, reporter: Reporter) -> None:
        self.caught_up = asyncio.Event()
        self._app, self._reporter = app, reporter
        self._loop = asyncio.get_running_loop()
        self._version = metrics.SNAPSHOT_VERSION.bind("ingress")

    def announce(self, snapshot: Snapshot) -> None:
        """Called from the follower's thread."""
        # The loop may have ended between two snapshots; then nobody needs this one.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._apply, snapshot)

    def _apply(self, snapshot: Snapshot) -> None:
        self._app.targets = TargetTable(snapshot.targets.values(), self._app.targets)
        self._version.set(snapshot.version)
        self.caught_up.set()
        self._reporter.ack(snapshot.version)


async def _first(one: asyncio.Event, other: asyncio.Event) -> None:
    """Waits for either event."""
    waiting = [asyncio.create_task(one.wait()), asyncio.create_task(other.wait())]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()
