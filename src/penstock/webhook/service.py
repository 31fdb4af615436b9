"""The webhook as a component: follows the ConfigMaps, keeps its certificates, answers reviews over HTTPS."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from concurrent.futures import CancelledError
from functools import partial

import structlog

from penstock.kube.client import AsyncClient
from penstock.kube.config import read_config
from penstock.kube.errors import KubeError
from penstock.kube.kinds import CONFIG_MAP, Key, Obj, key_of
from penstock.kube.list_watch import Changed, Interrupted, Listed, list_and_watch
from penstock.lifecycle import Lifecycle, first
from penstock.observability.logs import describe
from penstock.resources.admission import SUBSCRIBE, SYSTEM_NAMESPACE, AccessUnknown, EventOrigin
from penstock.serving import HttpServer, listen
from penstock.settings import Settings
from penstock.tls.context import RenewedContext
from penstock.webhook.app import application
from penstock.webhook.judge import Judge
from penstock.webhook.keeper import FAILURES, CertificateKeeper

FIELD_MANAGER = "penstock-webhook"
RETRY_SECONDS = 2.0
ACCESS_SECONDS = 5.0
"""For the question what a user may do; the API server waits 10 s for the answer to a review."""

log = structlog.get_logger()


async def run(settings: Settings, lifecycle: Lifecycle) -> None:
    """Serves until told to stop."""
    if settings.kubeconfig is None:
        raise ValueError("the webhook serves an existing cluster: name its kubeconfig, or `in-cluster`")
    api = AsyncClient(read_config(settings.kubeconfig), field_manager=FIELD_MANAGER)
    try:
        taken = listen(lifecycle, "the webhook", settings.host, settings.webhook_port, "webhook_port")
        with contextlib.closing(taken) as listener:
            await _run(settings, lifecycle, api, listener)
    finally:
        await api.close()


async def _run(settings: Settings, lifecycle: Lifecycle, api: AsyncClient, listener: socket.socket) -> None:
    tls = RenewedContext()
    loop = asyncio.get_running_loop()

    def judged(user: Obj, origin: EventOrigin) -> bool:
        """Asked by the threads that judge."""
        asked = asyncio.run_coroutine_threadsafe(may_subscribe(api, user, origin), loop)
        try:
            return asked.result(ACCESS_SECONDS)
        except (TimeoutError, CancelledError):
            asked.cancel()
            raise AccessUnknown(f"no answer within {ACCESS_SECONDS:.0f} s") from None

    keeper, judge, configured = CertificateKeeper(api, tls), Judge(settings, judged), asyncio.Event()
    server = HttpServer(application(judge), listener, tls.context)

    async def work() -> None:
        await first(_prepare(keeper, configured), lifecycle.stopping.wait())
        if not lifecycle.stopping.is_set():
            await first(_serve(server, settings, lifecycle), keeper.run())

    await first(work(), _follow(api, judge, configured))


async def _serve(server: HttpServer, settings: Settings, lifecycle: Lifecycle) -> None:
    async with server.listening(settings.drain_seconds):
        lifecycle.ready(url=f"https://{server.address}")
        await lifecycle.stopping.wait()


async def _prepare(keeper: CertificateKeeper, configured: asyncio.Event) -> None:
    """Nothing can be answered without a certificate and a configuration; the API may come up later than this."""
    while True:
        try:
            await keeper.look()
            break
        except FAILURES as error:
            log.warning("the cluster's API does not let the webhook prepare; trying again", error=describe(error))
            await asyncio.sleep(RETRY_SECONDS)
    await configured.wait()


async def _follow(api: AsyncClient, judge: Judge, configured: asyncio.Event) -> None:
    """Keeps the judge's ConfigMaps as they are in the cluster; while that cannot be asked, the last ones hold."""
    get_list = partial(api.list, CONFIG_MAP, SYSTEM_NAMESPACE)
    open_watch = partial(api.watch, CONFIG_MAP, namespace=SYSTEM_NAMESPACE)
    configmaps: dict[Key, Obj] = {}
    async for news in list_and_watch(get_list, open_watch):
        match news:
            case Listed(objects):
                configmaps = {key_of(one): one for one in objects}
            case Changed("DELETED", obj):
                configmaps.pop(key_of(obj), None)
            case Changed(_, obj):
                configmaps[key_of(obj)] = obj
            case Interrupted(error):
                log.info("ConfigMaps are read again", error=describe(error))
                continue
        judge.configure(configmaps.values())
        configured.set()


async def may_subscribe(api: AsyncClient, user: Obj, origin: EventOrigin) -> bool:
    """Whether the cluster lets the user subscribe to a Broker or channel. Raises AccessUnknown."""
    who: Obj = {name: user[name] for name in ("groups", "uid", "extra") if name in user}
    who["user"] = user.get("username")
    try:
        return await api.is_allowed({**who, "resourceAttributes": {"verb": SUBSCRIBE, **origin._asdict()}})
    except KubeError as error:
        raise AccessUnknown(str(error)) from error
