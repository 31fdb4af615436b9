"""The ingress component: HTTP in, `penstock.events` out. Several processes of it may share one port."""

from __future__ import annotations

import asyncio
import os
import socket

import structlog

from penstock.contract.snapshot import Snapshot
from penstock.ingress.app import Ingress
from penstock.ingress.authorization import SenderAuthorizer
from penstock.ingress.server import IngressServer
from penstock.ingress.storage_checks import DiskWatch, KafkaWatch
from penstock.ingress.targets import TargetTable
from penstock.kafka.events import EventWriter
from penstock.kafka.reports import Reporter
from penstock.kafka.table import SnapshotFollower
from penstock.observability import metrics, trace
from penstock.observability.instruments import record_metrics
from penstock.runtime.lifecycle import Lifecycle, first, settle_garbage
from penstock.runtime.sockets import bound_socket
from penstock.runtime.tasks import TaskScope
from penstock.settings import Settings
from penstock.web.tls_server import NoCertificate, ServerTls

log = structlog.get_logger()


async def run(settings: Settings, lifecycle: Lifecycle) -> None:
    """Serves until `lifecycle.stopping`; then lets every request end and everything pending be confirmed."""
    record_metrics(settings.metrics)
    settle_garbage()
    instance = os.environ.get("PENSTOCK_INSTANCE") or f"ingress-{os.getpid()}"
    tls = ServerTls(settings)
    listening, secure = _listen(settings, tls, lifecycle)
    tracer = trace.configure("penstock-ingress")
    scope = TaskScope()
    # Of the embedded Kafka and of the data folder, which may be on different disks. An external Kafka's is not visible.
    folders = (settings.embedded_kafka_dir, settings.data_dir)
    disk = DiskWatch(folders, settings.min_free_disk_mib if settings.kafka is None else 0)
    events = EventWriter(
        settings, "ingress", scope.fail, timeout_seconds=settings.store_timeout_seconds, gauge=metrics.PENDING.bind()
    )
    kafka = KafkaWatch(events)
    reporter = Reporter(settings, "ingress", instance, scope.fail)
    authorizer = SenderAuthorizer()
    app = Ingress(settings, events, disk, kafka, tracer, report_type=reporter.seen_type, authorizer=authorizer)
    server = IngressServer(app, settings, scope)
    snapshots = _Snapshots(app, reporter, scope, _TokenAuthentication(settings, authorizer, scope))
    lifecycle.doubts.append(app.why_unready)
    follower = SnapshotFollower(settings, snapshots.announce, scope.fail)
    scope.start(disk.run(), "disk watch")
    scope.start(kafka.run(), "Kafka watch")
    scope.start(tls.run(), "certificate")
    try:
        await server.start(listening, secure, tls.context)
        follower.start()
        await first(snapshots.caught_up.wait(), lifecycle.stopping.wait(), scope.failed())
        if snapshots.caught_up.is_set():
            port, tls_port = listening.getsockname()[1], secure.getsockname()[1]
            log.info("accepting events", host=settings.host, port=port, tls_port=tls_port, instance=instance)
            lifecycle.ready(address=f"http://{settings.host}:{port}", instance=instance)
            await first(lifecycle.stopping.wait(), scope.failed())
    finally:
        await server.end()
        left = await events.close(settings.drain_seconds)
        if left:
            log.error("events were not confirmed before the shutdown; their senders got no 202", events=left)
        await scope.close()
        for close in (follower.stop, reporter.close, tracer.close):
            await asyncio.to_thread(close)


def _listen(settings: Settings, tls: ServerTls, lifecycle: Lifecycle) -> tuple[socket.socket, socket.socket]:
    """The sockets of HTTP and HTTPS, once there is a certificate to show."""
    try:
        tls.look()
        listening = bound_socket(settings.host, settings.port, shared=True)
        try:
            return listening, bound_socket(settings.host, settings.tls_port, shared=True)
        except OSError:
            listening.close()
            raise
    except (OSError, NoCertificate) as error:
        lifecycle.fail(f"the ingress {error.strerror}" if isinstance(error, OSError) else str(error))
        raise


class _TokenAuthentication:
    """Adds the token authenticator when the first target has an audience; nothing of it is imported before."""

    def __init__(self, settings: Settings, authorizer: SenderAuthorizer, scope: TaskScope) -> None:
        self._settings, self._authorizer, self._scope = settings, authorizer, scope
        self._has_begun = False

    def prepare(self, snapshot: Snapshot) -> None:
        """To be called with every snapshot before it comes into force."""
        if self._has_begun or not any(one.access and one.access.audience for one in snapshot.targets.values()):
            return
        from penstock.ingress.token_authentication import TokenAuthenticator
        from penstock.oidc.issuers import issuers_of
        from penstock.oidc.verifier import Verifier

        self._has_begun = True
        issuers = issuers_of(self._settings)
        issuers.want()
        self._scope.start(issuers.run(), "keys of issuers")
        self._authorizer.add(TokenAuthenticator(Verifier(issuers)))


class _Snapshots:
    """Hands snapshots from the follower's thread to the application."""

    def __init__(self, app: Ingress, reporter: Reporter, scope: TaskScope, tokens: _TokenAuthentication) -> None:
        self.caught_up = asyncio.Event()
        self._app, self._reporter, self._scope, self._tokens = app, reporter, scope, tokens
        self._version = metrics.SNAPSHOT_VERSION.bind("ingress")

    def announce(self, snapshot: Snapshot) -> None:
        """Called from the follower's thread."""
        self._scope.hand_over(self._apply, snapshot)

    def _apply(self, snapshot: Snapshot) -> None:
        self._tokens.prepare(snapshot)
        self._app.targets = TargetTable(snapshot.targets.values(), self._app.targets)
        self._version.set(snapshot.version)
        self.caught_up.set()
        self._reporter.ack(snapshot.version)
