"""Runs the node: connects it to the API and to the Service names of the data plane, and starts its proxies."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import secrets
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import structlog
from pyreqwest.client import ClientBuilder

from penstock.contract.names import Location
from penstock.destinations import Destinations
from penstock.kafka.table import SnapshotFollower
from penstock.kube.client import AsyncClient
from penstock.kube.config import ClusterConfig, read_config
from penstock.kube.list_watch import Interrupted
from penstock.observability.logs import describe
from penstock.resources.metadata import NODE_NAME
from penstock.runtime.lifecycle import Lifecycle, first
from penstock.runtime.sockets import bound_socket
from penstock.runtime.tasks import TaskScope
from penstock.settings import Settings
from penstock.web.http_clients import client_builder
from penstock.web.server import HttpServer
from penstock.web.tls_server import InMemoryCertificate
from penstock.workloads.images import Images
from penstock.workloads.kubernetes import PodApi
from penstock.workloads.pods.actor_process import ActorServices, MakeCertificate
from penstock.workloads.pods.node import Pods, trim_logs
from penstock.workloads.pods.preparation import Node
from penstock.workloads.processes.command import Proxies
from penstock.workloads.processes.node_context import NodeContext, can_mount
from penstock.workloads.processes.process import MARK
from penstock.workloads.proxy import Locate, NameProxy
from penstock.workloads.tunnels import Tunnels

log = structlog.get_logger()


def kill_leftovers(data_dir: Path) -> None:
    """Kills programs of an earlier run: processes with an environment variable for this data folder."""
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == str(data_dir):
                log.warning("killing a program of an earlier run", pid=process.pid, name=process.name())
                process.kill()
        except psutil.Error:
            continue  # another user's, or gone


LOOPBACK = "127.0.0.1"
USER_AGENT = "penstock-workloads"
POD_CERTIFICATE = "pod"
"""The subject of certificates for servers in Pods; their host names are alternative names."""


async def run(settings: Settings, lifecycle: Lifecycle) -> None:
    """Runs the Pods of the embedded control plane until the process is stopped."""
    kubeconfig = settings.data_dir / "kubeconfig-node"
    if not await lifecycle.appears(kubeconfig):
        return
    owner = TaskScope()
    names = SnapshotFollower(settings, lambda snapshot: None, owner.fail)
    names.start()

    def locate(url: str) -> Location:
        return names.snapshot.names.locate(url)

    def trusted() -> str:
        return names.snapshot.trusted

    def certificate(hosts: Sequence[str]) -> MakeCertificate:
        return InMemoryCertificate(settings, POD_CERTIFICATE, hosts)

    config = read_config(kubeconfig)
    api = AsyncClient(config, field_manager=NODE_NAME)
    await asyncio.to_thread(kill_leftovers, settings.data_dir.resolve())
    try:
        password = secrets.token_urlsafe(32)
        names_over_http, names_over_tls = _proxy(locate, password), Tunnels(locate, password).serve(LOOPBACK)
        async with client_builder(USER_AGENT).build() as client, names_over_http as proxy, names_over_tls as tunnels:
            context = await _node_context(settings, config, Proxies(proxy, tunnels, password))
            logs = settings.data_dir.resolve() / "logs" / "pods"
            destinations, most = Destinations(settings), settings.max_event_bytes
            services = ActorServices(PodApi(api), locate, destinations, trusted, certificate, most)
            node = Node(PodApi(api), client, services, logs, Images(settings.images), context)
            pods = Pods(node)
            try:
                following = _follow(PodApi(api), pods, lifecycle)
                await first(following, trim_logs(logs), owner.failed(), lifecycle.stopping.wait())
            finally:
                await pods.stop(settings.drain_seconds)
    finally:
        await api.close()
        await asyncio.to_thread(names.stop)


def _untouched() -> ClientBuilder:
    """A client that does not change responses."""
    return ClientBuilder().follow_redirects(False).gzip(False).brotli(False).zstd(False).deflate(False)


@contextlib.asynccontextmanager
async def _proxy(locate: Locate, password: str) -> AsyncIterator[str]:
    """The HTTP proxy; its URL."""
    # For other hosts this process may have to use a proxy itself.
    direct, outside = _untouched().no_proxy().pool_max_idle_per_host(0).build(), _untouched().build()
    async with direct, outside:
        listener = bound_socket(LOOPBACK, 0)
        listener.listen(256)
        server = HttpServer(NameProxy(locate, password, direct, outside), listener)
        await server.start()
        try:
            yield f"http://{server.address}"
        finally:
            await server.stop(0)


async def _node_context(settings: Settings, config: ClusterConfig, proxies: Proxies) -> NodeContext:
    cluster = config.cluster
    server = urlsplit(cluster.server)
    return NodeContext(
        data_dir=settings.data_dir.resolve(),
        proxies=proxies,
        api_url=cluster.server,
        api_host=server.hostname or "",
        api_port=server.port or 443,
        authority=base64.b64decode(cluster.certificate_auth_data or ""),
        mounts=await can_mount(settings.data_dir.resolve()),
    )


async def _follow(api: PodApi, pods: Pods, lifecycle: Lifecycle) -> None:
    """Runs the Pods of the API. While the API is unreachable, they continue unchanged."""
    announced = False
    async for news in api.follow():
        if isinstance(news, Interrupted):
            log.info("the connection to the API broke; connecting again", error=describe(news.error))
            continue
        pods.take(news)
        if not announced:
            lifecycle.ready(node=NODE_NAME)
            announced = True
