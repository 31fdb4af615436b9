"""The component: connects the node to the API and to the names of the data plane, and keeps it going."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

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
from penstock.workloads.kubernetes import PodApi, PodChange, PodList
from penstock.workloads.node import Pods
from penstock.workloads.podlife import Node
from penstock.workloads.podstatus import NODE_NAME

log = structlog.get_logger()

USER_AGENT = "penstock-workloads"
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

    api = AsyncClient(KubeConfig.from_file(kubeconfig), field_manager=NODE_NAME, trust_env=False)
    client = ClientBuilder().no_proxy().user_agent(USER_AGENT).follow_redirects(False).build()
    try:
        async with client:
            pods = Pods(Node(PodApi(api), client, locate, settings.data_dir / "logs" / "pods"))
            try:
                await first(_follow(PodApi(api), pods, lifecycle), owner.failed(), lifecycle.stopping.wait())
            finally:
                await pods.stop(settings.drain_seconds)
    finally:
        await api.close()
        await asyncio.to_thread(names.stop)


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
