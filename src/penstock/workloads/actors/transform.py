"""The actor `transform-jsonata`: transforms events with a JSONata expression and returns the result or sends it to a
sink.

With a sink, the response is that of the sink, so that the sender of the event knows whether it was delivered.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from penstock.events import http, json_format
from penstock.events.event import MalformedEvent
from penstock.workloads.actors.http_actor import HttpActor
from penstock.workloads.actors.jsonata import CannotTransform, Expressions
from penstock.workloads.actors.outgoing import NotSent, Outgoing
from penstock.workloads.actors.reporting import PodLog
from penstock.workloads.actors.shown_certificate import ShownCertificate
from penstock.workloads.server import BodyTooLarge, TakeListener, body_of

EXPRESSION, REPLY_EXPRESSION = "JSONATA_TRANSFORM", "JSONATA_RESPONSE_TRANSFORM"
DISCARD, SINK = "JSONATA_DISCARD_RESPONSE_BODY", "K_SINK"
SERVICE, NO_HTTP = "HTTPS_SERVICE", "DISABLE_HTTP_SERVER"
MOST_BYTES = 16 * 1024 * 1024
STRUCTURED, JSON = "application/cloudevents+json", "application/json"


class Transform(HttpActor):
    """The program."""

    def __init__(
        self,
        env: Mapping[str, str],
        log: PodLog,
        outgoing: Outgoing,
        take_listener: TakeListener,
        *,
        tls_of: Callable[[str], ShownCertificate],
    ) -> None:
        """`tls_of` gives the certificate of a Service of the Pod's namespace."""
        service = env.get(SERVICE)
        super().__init__(take_listener, tls_of(service) if service else None, plain=env.get(NO_HTTP) != "true")
        self._sink, self._discard = env.get(SINK) or None, env.get(DISCARD) == "true"
        sources = {"input": env.get(EXPRESSION, ""), "reply": env.get(REPLY_EXPRESSION, "")}
        self._expressions = Expressions({name: text for name, text in sources.items() if text})
        self._replies = bool(sources["reply"])
        self._log, self._outgoing = log, outgoing

    async def prepare(self) -> str | None:
        """Parses the expressions."""
        if not self._ports:
            return f"{NO_HTTP} leaves nothing to serve where {SERVICE} does not name a Service"
        try:
            await self._expressions.start()
        except (CannotTransform, TimeoutError) as error:
            return f"Failed to parse Jsonata transform: {error}"
        return None

    async def close(self) -> None:
        """Ends the process of the expressions and closes connections to the sink."""
        await self._expressions.close()
        await self._outgoing.close()

    async def answer(self, request: Request) -> Response:
        """See `HttpActor`."""
        if request.method == "GET" and request.url.path in ("/healthz", "/readyz"):
            return Response(status_code=200)
        if request.method != "POST":
            return Response(status_code=405)
        headers = http.fold_headers(request.scope["headers"])
        if (refusal := _refusal_of(headers)) is not None:
            return refusal
        try:
            body = await body_of(request, MOST_BYTES)
        except BodyTooLarge:
            return Response(status_code=413)
        try:
            return await self._transform(headers, body)
        except (CannotTransform, NotSent) as error:
            self._log.write(f"{type(error).__name__}: {error}")
            return _refused(500, str(error))

    async def _transform(self, headers: Mapping[str, str], body: bytes) -> Response:
        made = await self._expressions.evaluate("input", document_of(headers, body))
        if made is None:
            raise CannotTransform("the expression has no result for this event")
        if self._sink is None:
            return Response(_encode(made), 200, media_type=content_type_of(made))
        sent = [("Content-Type", content_type_of(made))]
        answer = await self._outgoing.send("POST", self._sink, sent, _encode(made))
        if self._discard or not answer.body:
            return Response(status_code=answer.status)
        if not self._replies:
            passed = {name: value for name, value in answer.headers if _is_event_header(name)}
            return Response(answer.body, answer.status, passed)
        reply = await self._expressions.evaluate("reply", document_of(dict(answer.headers), answer.body))
        return Response(_encode(reply), answer.status, media_type=content_type_of(reply))


def document_of(headers: Mapping[str, str], body: bytes) -> Any:
    """The input of the expression: the event in the JSON format, or the body if it is not an event."""
    try:
        return json.loads(json_format.encode(http.from_http(headers, body)))
    except MalformedEvent:
        text = body.decode(errors="replace")
    try:
        return json.loads(text)
    except ValueError:
        return text


def content_type_of(made: Any) -> str:
    """The content type in the result, otherwise that of an event or of JSON."""
    if isinstance(made, dict) and made.get("contenttype"):
        return str(made["contenttype"])
    return STRUCTURED if isinstance(made, dict) and "specversion" in made else JSON


def _encode(made: Any) -> bytes:
    return json.dumps(made, ensure_ascii=False, separators=(",", ":")).encode()


def _is_event_header(header: str) -> bool:
    return header == "content-type" or header.startswith("ce-")


def _refusal_of(headers: Mapping[str, str]) -> Response | None:
    """The response to a request that is rejected without reading the body."""
    if http.is_encoded(headers):
        return Response(status_code=415, headers={"accept-encoding": "identity"})
    if headers.get("content-type", "").startswith("application/cloudevents-batch"):
        return _refused(400, "Unsupported batch input")
    return None


def _refused(status: int, reason: str) -> Response:
    shown = reason.encode("ascii", "replace").decode().replace("\n", " ").replace("\r", " ")
    return Response(status_code=status, headers={"reason": shown[:500]})
