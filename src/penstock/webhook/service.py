"""The webhook as a component: follows the ConfigMaps, keeps its certificates, answers reviews over HTTPS."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl

import structlog
import uvicorn

from penstock.lifecycle import Lifecycle, first
from penstock.observability.logs import describe
from penstock.serving import ComponentServer
from penstock.settings import Settings
from penstock.sockets import bound_socket
from penstock.webhook.app import application
from penstock.webhook.cluster import WebhookCluster
from penstock.webhook.judge import Judge
from penstock.webhook.keeper import CertificateKeeper

RETRY_SECONDS = 2.0

log = structlog.get_logger()


async def run(settings: Settings, lifecycle: Lifecycle) -> None:
    """Serves until told to stop."""
    cluster = WebhookCluster(settings)
    try:
        with contextlib.closing(_listen(settings, lifecycle)) as listener:
            await _run(settings, lifecycle, cluster, listener)
    finally:
        await cluster.close()


def _listen(settings: Settings, lifecycle: Lifecycle) -> socket.socket:
    try:
        return bound_socket(settings.host, settings.webhook_port)
    except OSError as error:
        lifecycle.fail(f"the webhook {error.strerror}; free the port or choose another with webhook_port")
        raise


async def _run(settings: Settings, lifecycle: Lifecycle, cluster: WebhookCluster, listener: socket.socket) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    keeper, judge, configured = CertificateKeeper(cluster, context), Judge(settings), asyncio.Event()
    server = ComponentServer(_configured(judge, context, settings))

    async def work() -> None:
        await first(_prepare(keeper, configured), lifecycle.stopping.wait())
        if not lifecycle.stopping.is_set():
            await first(_serve(server, listener, lifecycle), keeper.run())

    await first(work(), _follow(cluster, judge, configured))


async def _serve(server: ComponentServer, listener: socket.socket, lifecycle: Lifecycle) -> None:
    """Answers until told to stop, and then what is under way."""
    serving = asyncio.create_task(server.serve(sockets=[listener]), name="webhook")
    try:
        await first(_ended(serving), server.listening.wait())
        if not serving.done():
            host, port = listener.getsockname()[:2]
            lifecycle.ready(url=f"https://{host}:{port}")
            await first(_ended(serving), lifecycle.stopping.wait())
    finally:
        server.should_exit = True
        await serving


async def _ended(task: asyncio.Task[None]) -> None:
    await asyncio.wait({task})


async def _prepare(keeper: CertificateKeeper, configured: asyncio.Event) -> None:
    """Nothing can be answered without a certificate and a configuration; the API may come up later than this."""
    while True:
        try:
            await keeper.look()
            break
        except Exception as error:
            log.warning("the cluster's API does not let the webhook prepare; trying again", error=describe(error))
            await asyncio.sleep(RETRY_SECONDS)
    await configured.wait()


async def _follow(cluster: WebhookCluster, judge: Judge, configured: asyncio.Event) -> None:
    """Keeps the judge's ConfigMaps as they are in the cluster; while that cannot be asked, the last ones hold."""
    while True:
        try:
            configmaps, version = await cluster.configmaps()
            judge.configure(configmaps)
            configured.set()
            async for _ in cluster.configmap_changes(version):
                break
        except Exception as error:
            log.info("ConfigMaps are read again", error=describe(error))
            await asyncio.sleep(RETRY_SECONDS)


def _configured(judge: Judge, context: ssl.SSLContext, settings: Settings) -> uvicorn.Config:
    return uvicorn.Config(
        application(judge),
        lifespan="off",
        access_log=False,
        log_config=None,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=max(1, round(settings.drain_seconds)),
        server_header=False,
        ssl_context_factory=lambda _config, _default: context,
    )
