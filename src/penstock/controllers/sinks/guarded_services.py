"""A proxy in front of the Services of EventTransforms and IntegrationSinks where tokens are required.

Their names have its address instead of those of their Pods. It checks the token and the EventPolicies, and forwards the
request to a ready Pod; Knative has a container for that in each Pod, the auth-proxy.
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
    RequestRejected,
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

RESPONSE_SECONDS = 600.0
"""For the Pod, which may itself wait for its sink. Senders have limits of their own."""
NOT_FORWARDED = HOP_BY_HOP | {"authorization", "content-length", "accept-encoding"}
NOT_RETURNED = HOP_BY_HOP | {"content-length"}

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
        """`guards`, and the addresses of the ready `pods`, by the keys of the Services; `transport` replaces the
        connections to Pods in tests."""
        self._guards, self._pods = guards, pods
        self._most, self._subject = max_event_bytes, subject
        # No limit: requests to a slow Pod must not make those to other Pods wait for a connection.
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
        self._client = httpx2.AsyncClient(trust_env=False, timeout=RESPONSE_SECONDS, transport=transport, limits=limits)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            response = await self._respond(Request(scope, receive))
            await response(scope, receive, send)

    async def close(self) -> None:
        """Closes the connections."""
        await self._client.aclose()

    async def _respond(self, request: Request) -> Response:
        key = service_of(request.headers.get("host", ""))
        guard = None if key is None else self._guards.get(key)
        if key is None or guard is None:
            return PlainTextResponse("it is not known who may send to this Service: use its name in full\n", 503)
        try:
            sender = await sender_of(request, guard, self._subject)
            body = await body_of(request, self._most)
            if guard.rules is not None and guard.rules.access.policies:
                check_event(guard.rules, sender, read_event(request, body))
        except RequestRejected as error:
            return error.response
        return await self._forward(request, body, key)

    async def _forward(self, request: Request, body: bytes, key: Key) -> Response:
        pods = self._pods.get(key)
        if not pods:
            return PlainTextResponse(f"the Service {key.name} has no ready Pod\n", 503)
        headers = [(name, value) for name, value in request.headers.raw if name.decode("latin-1") not in NOT_FORWARDED]
        headers.append((b"accept-encoding", b"identity"))
        target = httpx2.URL(f"http://{pods[0]}").copy_with(raw_path=_target(request.scope))
        try:
            async with self._client.stream(request.method, target, headers=headers, content=body) as received:
                content = b""
                async for chunk in received.aiter_raw():
                    content += chunk
                    if len(content) > self._most:
                        return PlainTextResponse(f"the Pod's response has more than {self._most} bytes\n", 502)
        except httpx2.HTTPError as error:
            log.warning("a guarded Pod did not respond", namespace=key.namespace, name=key.name, error=describe(error))
            return PlainTextResponse("the Pod cannot be reached, or sent no response\n", 502)
        response = Response(content, received.status_code)
        lower = [(name.lower(), value) for name, value in received.headers.raw]
        response.raw_headers += [one for one in lower if one[0].decode("latin-1") not in NOT_RETURNED]
        return response


class GuardedCertificates:
    """The TLS context for guarded Services: by SNI, a certificate of its own for each of them."""

    def __init__(self, guards: Mapping[Key, SinkGuard], tls_of: Callable[[tuple[str, ...]], ServerTls]) -> None:
        """`tls_of` creates the certificate for DNS names."""
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
    """The Service of a host name, in full or as `name.namespace`; None for other names."""
    name = host.partition(":")[0].lower().removesuffix(".").removesuffix(f".{CLUSTER_DOMAIN}").removesuffix(".svc")
    parts = name.split(".")
    return Key(parts[1], parts[0]) if len(parts) == 2 and all(parts) else None


def _target(scope: Scope) -> bytes:
    path: bytes = scope.get("raw_path") or b"/"
    query: bytes = scope["query_string"]
    return path.partition(b"?")[0] + (b"?" + query if query else b"")
