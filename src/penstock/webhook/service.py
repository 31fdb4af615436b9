"""The webhook as a component: follows the ConfigMaps, rotates its certificates, and serves reviews over HTTPS.

Each kind of review has a path, to which it is POSTed. A body that is not a review gets 400.
"""

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
from penstock.webhook.admission import AdmissionHandler
from penstock.webhook.certificates import FAILURES, CertificateRotation
from penstock.webhook.reviews import MalformedReview, converted, read_review

DEFAULTING = "/defaulting"
VALIDATION = "/resource-validation"
CONFIG_VALIDATION = "/config-validation"
CONVERSION = "/resource-conversion"

MAX_BODY_BYTES = 8 * 1024 * 1024
"""A review holds an object twice, old and new; the API accepts objects of up to 3 MiB."""
BODY_SECONDS = 10.0
"""Time for a body to arrive; the API server times out after as long."""

Respond = Callable[[object], Obj]
FIELD_MANAGER = "penstock-webhook"
RETRY_SECONDS = 2.0
ACCESS_SECONDS = 5.0
"""Timeout of access reviews; the API server waits 10 s for the response to an admission review."""

log = structlog.get_logger()


def application(handler: AdmissionHandler) -> Starlette:
    """The application. Reviews are handled in threads, so that a long filter does not block other requests."""
    responders: dict[str, Respond] = {
        DEFAULTING: lambda document: handler.default(read_review(document)),
        VALIDATION: lambda document: handler.validate(read_review(document)),
        CONFIG_VALIDATION: lambda document: handler.validate_features(read_review(document)),
        CONVERSION: lambda document: converted(document, CONVERSIONS),
    }
    return Starlette(routes=[Route(path, _endpoint(respond), methods=["POST"]) for path, respond in responders.items()])


def _endpoint(respond: Respond) -> Callable[[Request], object]:
    async def endpoint(request: Request) -> Response:
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await _body(request)
        except TimeoutError:
            return PlainTextResponse("the body did not arrive in time\n", 408)
        if body is None:
            return PlainTextResponse(f"the body has more than {MAX_BODY_BYTES} bytes\n", 413)
        try:
            return JSONResponse(await asyncio.to_thread(_respond, respond, body))
        except MalformedReview as error:
            return PlainTextResponse(f"{error}\n", 400)

    return endpoint


def _respond(respond: Respond, body: bytes) -> Obj:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise MalformedReview(f"the body is not JSON: {error}") from None
    return respond(document)


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


async def run(settings: Settings, lifecycle: Lifecycle) -> None:
    """Serves until stopped."""
    if settings.kubeconfig is None:
        raise ValueError("the webhook serves an existing cluster: name its kubeconfig, or `in-cluster`")
    api = AsyncClient(read_config(settings.kubeconfig), field_manager=FIELD_MANAGER)
    try:
        listening = listen(lifecycle, "the webhook", settings.host, settings.webhook_port, "webhook_port")
        with contextlib.closing(listening) as listener:
            await _run(settings, lifecycle, api, listener)
    finally:
        await api.close()


async def _run(settings: Settings, lifecycle: Lifecycle, api: AsyncClient, listener: socket.socket) -> None:
    tls = RenewedContext()
    loop = asyncio.get_running_loop()

    def user_may_subscribe(user: Obj, origin: EventOrigin) -> bool:
        """Called in the threads that handle reviews; the request to the API runs in the event loop."""
        pending = asyncio.run_coroutine_threadsafe(may_subscribe(api, user, origin), loop)
        try:
            return pending.result(ACCESS_SECONDS)
        except (TimeoutError, CancelledError):
            pending.cancel()
            raise AccessUnknown(f"no response within {ACCESS_SECONDS:.0f} s") from None

    rotation, configured = CertificateRotation(api, tls), asyncio.Event()
    handler = AdmissionHandler(settings, user_may_subscribe)
    server = HttpServer(application(handler), listener, tls.context)

    async def work() -> None:
        await first(_prepare(rotation, configured), lifecycle.stopping.wait())
        if not lifecycle.stopping.is_set():
            await first(_serve(server, settings, lifecycle), rotation.run())

    await first(work(), _follow(api, handler, configured))


async def _serve(server: HttpServer, settings: Settings, lifecycle: Lifecycle) -> None:
    async with server.listening(settings.drain_seconds):
        lifecycle.ready(url=f"https://{server.address}")
        await lifecycle.stopping.wait()


async def _prepare(rotation: CertificateRotation, configured: asyncio.Event) -> None:
    """Waits for the first certificate and configuration. The API may start later than this process."""
    while True:
        try:
            await rotation.rotate()
            break
        except FAILURES as error:
            log.warning("the webhook cannot prepare its certificates; retrying", error=describe(error))
            await asyncio.sleep(RETRY_SECONDS)
    await configured.wait()


async def _follow(api: AsyncClient, handler: AdmissionHandler, configured: asyncio.Event) -> None:
    """Keeps the handler's ConfigMaps up to date; while the API is unavailable, the last ones are used."""
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
                log.info("the watch of ConfigMaps was interrupted", error=describe(error))
                continue
        handler.configure(configmaps.values())
        configured.set()


async def may_subscribe(api: AsyncClient, user: Obj, origin: EventOrigin) -> bool:
    """Whether the cluster lets the user subscribe to a Broker or channel. Raises AccessUnknown."""
    who: Obj = {name: user[name] for name in ("groups", "uid", "extra") if name in user}
    who["user"] = user.get("username")
    try:
        return await api.is_allowed({**who, "resourceAttributes": {"verb": SUBSCRIBE, **origin._asdict()}})
    except KubeError as error:
        raise AccessUnknown(str(error)) from error
