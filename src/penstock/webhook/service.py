"""The webhook as a component: follows the ConfigMaps, keeps its certificates, answers reviews over HTTPS."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import Callable
from concurrent.futures import CancelledError
from functools import partial

import structlog
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from penstock.kube.client import AsyncClient
from penstock.kube.config import read_config
from penstock.kube.errors import KubeError
from penstock.kube.kinds import CONFIG_MAP, Key, Obj, key_of
from penstock.kube.list_watch import Changed, Interrupted, Listed, list_and_watch
from penstock.observability.logs import describe
from penstock.resources.admission import SUBSCRIBE, SYSTEM_NAMESPACE, AccessUnknown, EventOrigin
from penstock.resources.registry import CONVERSIONS
from penstock.runtime.lifecycle import Lifecycle, first
from penstock.settings import Settings
from penstock.web.server import HttpServer, listen
from penstock.web.tls_context import RenewedContext
from penstock.webhook.admission import Judge
from penstock.webhook.certificates import FAILURES, CertificateKeeper
from penstock.webhook.reviews import MalformedReview, converted, read

# The webhook's HTTP: one path per question, each a POST of a review. What is no review is answered 400.

DEFAULTING = "/defaulting"
VALIDATION = "/resource-validation"
CONFIG_VALIDATION = "/config-validation"
CONVERSION = "/resource-conversion"

MAX_BODY_BYTES = 8 * 1024 * 1024
"""A review holds an object twice, as it was and as it shall be; the API takes objects of 3 MiB."""
BODY_SECONDS = 10.0
"""The API server gives up after as long; who is slower is not it."""

Answer = Callable[[object], Obj]


def application(judge: Judge) -> Starlette:
    """The application. Judging happens in threads, so that one long filter does not hold up other requests."""
    answers: dict[str, Answer] = {
        DEFAULTING: lambda document: judge.default(read(document)),
        VALIDATION: lambda document: judge.validate(read(document)),
        CONFIG_VALIDATION: lambda document: judge.validate_features(read(document)),
        CONVERSION: lambda document: converted(document, CONVERSIONS),
    }
    return Starlette(routes=[Route(path, _endpoint(answer), methods=["POST"]) for path, answer in answers.items()])


def _endpoint(answer: Answer) -> Callable[[Request], object]:
    async def endpoint(request: Request) -> Response:
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await _body(request)
        except TimeoutError:
            return PlainTextResponse("the body did not arrive in time\n", 408)
        if body is None:
            return PlainTextResponse(f"the body has more than {MAX_BODY_BYTES} bytes\n", 413)
        try:
            return JSONResponse(await asyncio.to_thread(_answered, answer, body))
        except MalformedReview as error:
            return PlainTextResponse(f"{error}\n", 400)

    return endpoint


def _answered(answer: Answer, body: bytes) -> Obj:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise MalformedReview(f"the body is not JSON: {error}") from None
    return answer(document)


async def _body(request: Request) -> bytes | None:
    """The whole body; None if there is too much of it."""
    declared = request.headers.get("content-length", "0")
    if declared.isdigit() and int(declared) > MAX_BODY_BYTES:
        return None
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_BODY_BYTES:
                return None
    except ClientDisconnect:
        return b""
    return bytes(body)


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
