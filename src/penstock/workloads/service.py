"""The component: connects the node to the API and to the names of the data plane, and keeps it going."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator, Sequence
from urllib.parse import urlsplit

import structlog
from lightkube import AsyncClient, KubeConfig
from pyreqwest.client import ClientBuilder

from penstock.contract.names import Location
from penstock.lifecycle import Lifecycle, first
from penstock.log.table import SnapshotFollower
from penstock.log.threads import Owner
from penstock.observability.logs import describe
from penstock.retry import pause_after
from penstock.settings import Settings
from penstock.sockets import bound_socket
from penstock.tls.server import PassingCertificate, ServerTls
from penstock.workloads.actors.sender import Locate
from penstock.workloads.clients import client_builder
from penstock.workloads.images import Images
from penstock.workloads.kubernetes import NODE_NAME, PodApi, PodChange, PodList
from penstock.workloads.leftovers import end_leftovers
from penstock.workloads.pods.log_limits import keep_short
from penstock.workloads.pods.node import Pods
from penstock.workloads.pods.preparation import Node
from penstock.workloads.processes.node_context import NodeContext, can_mount
from penstock.workloads.proxy import NameProxy
from penstock.workloads.server import WorkloadServer
from penstock.workloads.trusting_client import TrustingClient
from penstock.workloads.tunnels import Tunnels

log = structlog.get_logger()

LOOPBACK = "127.0.0.1"
POD_CERTIFICATE = "pod"
"""The subject of certificates for servers in Pods; whom they are for is in their names."""
RECONNECT_SECONDS = (0.2, 5.0)
"""First and longest pause before the API is asked again."""


async def run(settings: Settings, lifecycle: Lifecycle) -> None:
    """Runs the Pods of the embedded control plane until told to stop."""
    kubeconfig = settings.data_dir / "kubeconfig-node"
    if not await lifecycle.appears(kubeconfig):
        return
    owner = Owner()
    names = SnapshotFollower(settings, lambda snapshot: None, owner.fail)
    names.start()

    def locate(url: str) -> Location:
        return names.snapshot.names.locate(url)

    def tls(hosts: Sequence[str]) -> ServerTls:
        return ServerTls(settings, make=PassingCertificate(settings, POD_CERTIFICATE, hosts))

    trusting = TrustingClient(lambda: names.snapshot.trusted, client_builder)
    config = KubeConfig.from_file(kubeconfig)
    api = AsyncClient(config, field_manager=NODE_NAME, trust_env=False)
    await asyncio.to_thread(end_leftovers, settings.data_dir.resolve())
    try:
        serving = Tunnels(locate).serve(LOOPBACK)
        async with client_builder().build() as client, _proxy(locate) as proxy, serving as tunnels:
            around = await _surroundings(settings, config, proxy, tunnels)
            logs = settings.data_dir.resolve() / "logs" / "pods"
            node = Node(PodApi(api), client, trusting, tls, locate, logs, Images(settings.images), around)
            pods = Pods(node)
            try:
                following = _follow(PodApi(api), pods, lifecycle)
                await first(following, keep_short(logs), owner.failed(), lifecycle.stopping.wait())
            finally:
                await pods.stop(settings.drain_seconds)
                await trusting.close()
    finally:
        await api.close()
        await asyncio.to_thread(names.stop)


def _untouched() -> ClientBuilder:
    """A client that passes answers on as they come."""
    return ClientBuilder().follow_redirects(False).gzip(False).brotli(False).zstd(False).deflate(False)


@contextlib.asynccontextmanager
async def _proxy(locate: Locate) -> AsyncIterator[str]:
    """The proxy of names; its URL."""
    # Beyond the cluster's names the proxy does as this process would, which may be behind a proxy itself.
    direct, outside = _untouched().no_proxy().pool_max_idle_per_host(0).build(), _untouched().build()
    async with direct, outside:
        listener = bound_socket(LOOPBACK, 0)
        listener.listen(256)
        server = WorkloadServer(NameProxy(locate, direct, outside), listener)
        await server.start()
        try:
            yield f"http://{LOOPBACK}:{listener.getsockname()[1]}"
        finally:
            await server.stop(0)


async def _surroundings(settings: Settings, config: KubeConfig, proxy: str, tunnels: str) -> NodeContext:
    cluster = config.clusters[config.contexts[config.current_context or ""].cluster]
    server = urlsplit(cluster.server)
    return NodeContext(
        data_dir=settings.data_dir.resolve(),
        proxy=proxy,
        tunnels=tunnels,
        api_url=cluster.server,
        api_host=server.hostname or "",
        api_port=server.port or 443,
        authority=base64.b64decode(cluster.certificate_auth_data or ""),
        mounts=await can_mount(settings.data_dir.resolve()),
    )


async def _follow(api: PodApi, pods: Pods, lifecycle: Lifecycle) -> None:
    """Follows the API; after a break it lists everything anew, so nothing that happened meanwhile is missed."""
    failures, announced = 0, False
    while True:
        async for news in _until_broken(api):
            pods.take(news)
            failures = 0
            if not announced:
                lifecycle.ready(node=NODE_NAME)
                announced = True
        failures += 1
        await asyncio.sleep(pause_after(failures, *RECONNECT_SECONDS))


async def _until_broken(api: PodApi) -> AsyncIterator[PodList | PodChange]:
    """What the API says until the connection breaks. Only that is caught here: a defect in acting on it is not."""
    news = api.follow()
    while True:
        try:
            following = await anext(news)
        except StopAsyncIteration:
            return
        except Exception as error:
            log.info("the connection to the API broke; connecting again", error=describe(error))
            return
        yield following
