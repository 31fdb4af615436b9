"""The Services of EventTransforms and IntegrationSinks where tokens are asked for (`authentication-oidc`).

Their names lead here instead of to their Pods. A request that shows who sends it, and that the sender may, is passed on
to a ready Pod; upstream has a container for that in each Pod, the auth-proxy.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping, Sequence

import httpx2
import structlog
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from penstock.contract.names import CLUSTER_DOMAIN, service_host, service_names
from penstock.controllers.sinks.requests import (
    RequestNotTaken,
    Subject,
    body_of,
    check_event,
    read_event,
    sender_of,
)
from penstock.events.http import HOP_BY_HOP
from penstock.kube.kinds import Key
from penstock.observability.logs import describe
from penstock.resources.eventpolicy import SinkGuard
from penstock.web.tls_context import server_context
from penstock.web.tls_server import NoCertificate, ServerTls

ANSWER_SECONDS = 600.0
"""For the Pod, which may itself wait for its sink. Senders have limits of their own."""
NOT_PASSED_ON = HOP_BY_HOP | {"authorization", "content-length", "accept-encoding"}
NOT_PASSED_BACK = HOP_BY_HOP | {"content-length"}

log = structlog.get_logger()


class GuardedServices:
    """An ASGI application."""

    def __init__(
        self,
        guards: Mapping[Key, SinkGuard],
        pods: Mapping[Key, Sequence[str]],
        max_event_bytes: int,
        subject: Subject,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        """`guards` and `pods`, the addresses of those that are ready, by the keys of the Services; `transport` leads to
        the Pods."""
        self._guards, self._pods = guards, pods
        self._most, self._subject = max_event_bytes, subject
        # A Pod that answers slowly must not keep those of others waiting for a connection.
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
        self._client = httpx2.AsyncClient(trust_env=False, timeout=ANSWER_SECONDS, transport=transport, limits=limits)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            response = await self._answer(Request(scope, receive))
            await response(scope, receive, send)

    async def close(self) -> None:
        """Ends its connections."""
        await self._client.aclose()

    async def _answer(self, request: Request) -> Response:
        key = service_of(request.headers.get("host", ""))
        guard = None if key is None else self._guards.get(key)
        if key is None or guard is None:
            return PlainTextResponse("it is not known who may send to this Service: use its name in full\n", 503)
        try:
            sender = await sender_of(request, guard, self._subject)
            body = await body_of(request, self._most)
            if guard.rules is not None and guard.rules.access.policies:
                check_event(guard.rules, sender, read_event(request, body))
        except RequestNotTaken as refusal:
            return refusal.answer
        return await self._pass_on(request, body, key)

    async def _pass_on(self, request: Request, body: bytes, key: Key) -> Response:
        pods = self._pods.get(key)
        if not pods:
            return PlainTextResponse(f"the Service {key.name} has no ready Pod\n", 503)
        passed = [(name, value) for name, value in request.headers.raw if name.decode("latin-1") not in NOT_PASSED_ON]
        passed.append((b"accept-encoding", b"identity"))
        target = httpx2.URL(f"http://{pods[0]}").copy_with(raw_path=_target(request.scope))
        try:
            async with self._client.stream(request.method, target, headers=passed, content=body) as answer:
                content = b""
                async for chunk in answer.aiter_raw():
                    content += chunk
                    if len(content) > self._most:
                        return PlainTextResponse(f"the Pod's answer has more than {self._most} bytes\n", 502)
        except httpx2.HTTPError as error:
            log.warning("a guarded Pod did not answer", namespace=key.namespace, name=key.name, error=describe(error))
            return PlainTextResponse("the Pod cannot be reached, or gave no answer\n", 502)
        response = Response(content, answer.status_code)
        kept = [(name.lower(), value) for name, value in answer.headers.raw]
        response.raw_headers += [one for one in kept if one[0].decode("latin-1") not in NOT_PASSED_BACK]
        return response


class GuardedCertificates:
    """What is shown to clients that speak TLS: for the name of each guarded Service a certificate of its own."""

    def __init__(self, guards: Mapping[Key, SinkGuard], tls_of: Callable[[tuple[str, ...]], ServerTls]) -> None:
        """`tls_of` gives the certificate for names."""
        self._guards, self._tls_of = guards, tls_of
        self._known: dict[Key, ServerTls] = {}
        self.context = server_context()
        self.context.sni_callback = self._show

    def _show(self, connection: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> int | None:
        key = service_of(name or "")
        if key is None or key not in self._guards:
            return ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME
        for gone in self._known.keys() - self._guards.keys():
            del self._known[gone]
        if key not in self._known:
            self._known[key] = self._tls_of(service_names(service_host(key.name, key.namespace))[:2])
        try:
            self._known[key].look()
        except NoCertificate as error:
            log.warning("no certificate", namespace=key.namespace, name=key.name, error=str(error))
            return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR
        connection.context = self._known[key].current
        return None


def service_of(host: str) -> Key | None:
    """The Service that a host names in full or as `name.namespace`; None where it names none."""
    name = host.partition(":")[0].lower().removesuffix(".").removesuffix(f".{CLUSTER_DOMAIN}").removesuffix(".svc")
    parts = name.split(".")
    return Key(parts[1], parts[0]) if len(parts) == 2 and all(parts) else None


def _target(scope: Scope) -> bytes:
    path: bytes = scope.get("raw_path") or b"/"
    query: bytes = scope["query_string"]
    return path.partition(b"?")[0] + (b"?" + query if query else b"")
