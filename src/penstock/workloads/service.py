"""The component: connects the node to the API and to the names of the data plane, and keeps it going."""

from __future__ import annotations

import asyncio
import contextlib

import structlog
from lightkube import AsyncClient, KubeConfig
from pyreqwest.client import ClientBuilder

from penstock.contract.names import Location
from penstock.lifecycle import Lifecycle
from penstock.log.table import SnapshotFollower
from penstock.log.threads import Owner
from penstock.observability.logs import describe
from penstock.settings import Settings
from penstock.workloads.kubernetes import PodApi
from penstock.workloads.node import Pods
from penstock.workloads.podlife import Node
from penstock.workloads.podstatus import NODE_NAME

log = structlog.get_logger()

USER_AGENT = "penstock-workloads"
KUBECONFIG_POLL_SECONDS = 0.1
RECONNECT_SECONDS = (0.2, 5.0)
"""First and longest pause before the API is asked again."""


async def run(settings: Settings, lifecycle: Lifecycle) -> None:
    """Runs the Pods of the embedded control plane until told to stop."""
    kubeconfig = settings.data_dir / "kubeconfig-control"
    while not await asyncio.to_thread(kubeconfig.exists):
        if await _stopped_within(lifecycle, KUBECONFIG_POLL_SECONDS):
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
            following = asyncio.create_task(_follow(PodApi(api), pods, lifecycle))
            failing = asyncio.create_task(owner.failed())
            stopping = asyncio.create_task(lifecycle.stopping.wait())
            await asyncio.wait({following, failing, stopping}, return_when=asyncio.FIRST_COMPLETED)
            for task in (following, failing, stopping):
                task.cancel()
            ended = await asyncio.gather(following, failing, stopping, return_exceptions=True)
            await pods.stop(settings.drain_seconds)
            for failure in ended:
                if isinstance(failure, Exception):
                    raise failure
    finally:
        await api.close()
        await asyncio.to_thread(names.stop)


async def _follow(api: PodApi, pods: Pods, lifecycle: Lifecycle) -> None:
    """Follows the API; after a break it lists everything anew, so nothing that happened meanwhile is missed."""
    pause, announced = RECONNECT_SECONDS[0], False
    while True:
        try:
            async for news in api.follow():
                pods.take(news)
                pause = RECONNECT_SECONDS[0]
                if not announced:
                    lifecycle.ready(node=NODE_NAME)
                    announced = True
        except Exception as error:
            log.info("the connection to the API broke; connecting again", error=describe(error), seconds=pause)
        await asyncio.sleep(pause)
        pause = min(pause * 2, RECONNECT_SECONDS[1])


async def _stopped_within(lifecycle: Lifecycle, seconds: float) -> bool:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(lifecycle.stopping.wait(), seconds)
    return lifecycle.stopping.is_set()
