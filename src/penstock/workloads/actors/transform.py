"""The actor `transform-jsonata`: answers an event with what a JSONata expression makes of it, or sends that to a sink.

With a sink the answer is the sink's, so whoever sent the event knows whether it got through. It accepts nothing itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyreqwest.client import Client
from pyreqwest.exceptions import PyreqwestError
from starlette.requests import Request
from starlette.responses import Response

from penstock.contract.names import Location, NothingThere
from penstock.events import http, json_format
from penstock.events.event import MalformedEvent
from penstock.tls.server import ServerTls
from penstock.workloads.actors.http_actor import HttpActor
from penstock.workloads.actors.jsonata import CannotTransform, Expressions
from penstock.workloads.actors.reporting import PodLog
from penstock.workloads.actors.sender import Locate
from penstock.workloads.server import TakeListener

EXPRESSION, REPLY_EXPRESSION = "JSONATA_TRANSFORM", "JSONATA_RESPONSE_TRANSFORM"
DISCARD, SINK = "JSONATA_DISCARD_RESPONSE_BODY", "K_SINK"
SERVICE, NO_HTTP = "HTTPS_SERVICE", "DISABLE_HTTP_SERVER"
MOST_BYTES = 16 * 1024 * 1024
STRUCTURED, JSON = "application/cloudevents+json", "application/json"


@dataclass(frozen=True)
class Answer:
    """What came back from the sink."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Transform(HttpActor):
    """The program."""

    def __init__(
        self,
        env: Mapping[str, str],
        log: PodLog,
        client: Callable[[Location], Client],
        locate: Locate,
        take_listener: TakeListener,
        *,
        tls_of: Callable[[str], ServerTls],
    ) -> None:
        """`tls_of` gives the certificate of a Service of the Pod's namespace."""
        service = env.get(SERVICE)
        super().__init__(take_listener, tls_of(service) if service else None, plain=env.get(NO_HTTP) != "true")
        self._sink, self._discard = env.get(SINK) or None, env.get(DISCARD) == "true"
        sources = {"input": env.get(EXPRESSION, ""), "reply": env.get(REPLY_EXPRESSION, "")}
        self._expressions = Expressions({name: text for name, text in sources.items() if text})
        self._replies = bool(sources["reply"])
        self._log, self._client, self._locate = log, client, locate

    async def prepare(self) -> str | None:
        """Has the expressions parsed."""
        if not self._ports:
            return f"{NO_HTTP} leaves nothing to serve where {SERVICE} does not name a Service"
        try:
            await self._expressions.start()
        except (CannotTransform, TimeoutError) as error:
            return f"Failed to parse Jsonata transform: {error}"
        return None

    async def close(self) -> None:
        """Ends the process that evaluates."""
        await self._expressions.close()

    async def answer(self, request: Request) -> Response:
        """See `HttpActor`."""
        if request.method == "GET" and request.url.path in ("/healthz", "/readyz"):
            return Response(status_code=200)
        if request.method != "POST":
            return Response(status_code=405)
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > MOST_BYTES:
                return Response(status_code=413)
        headers = http.fold_headers(request.scope["headers"])
        if headers.get("content-type", "").startswith("application/cloudevents-batch"):
            return _refused(400, "Unsupported batch input")
        try:
            return await self._transform(headers, body)
        except (CannotTransform, PyreqwestError, NothingThere) as error:
            self._log.write(f"{type(error).__name__}: {error}")
            return _refused(500, str(error))

    async def _transform(self, headers: Mapping[str, str], body: bytes) -> Response:
        made = await self._expressions.evaluate("input", document_of(headers, body))
        if made is None:
            raise CannotTransform("the expression gives nothing for this event")
        if self._sink is None:
            return Response(_encode(made), 200, media_type=content_type_of(made))
        answer = await self._send(self._sink, made)
        if self._discard or not answer.body:
            return Response(status_code=answer.status)
        if not self._replies:
            passed = {name: value for name, value in answer.headers.items() if _tells_of_the_event(name)}
            return Response(answer.body, answer.status, passed)
        reply = await self._expressions.evaluate("reply", document_of(answer.headers, answer.body))
        return Response(_encode(reply), answer.status, media_type=content_type_of(reply))

    async def _send(self, sink: str, made: Any) -> Answer:
        location = self._locate(sink)
        client = self._client(location)
        request = client.request("POST", location.named_url).headers([("Content-Type", content_type_of(made))])
        if location.host:
            request = request.header("Host", location.host)
        response = await request.body_bytes(_encode(made)).build().send()
        headers = {name.lower(): value for name, value in response.headers.items()}
        return Answer(response.status, headers, bytes(await response.bytes()))


def document_of(headers: Mapping[str, str], body: bytes) -> Any:
    """What the expression sees: the event in the JSON format; the body where it is none."""
    try:
        return json.loads(json_format.encode(http.from_http(headers, body)))
    except MalformedEvent:
        text = body.decode(errors="replace")
    try:
        return json.loads(text)
    except ValueError:
        return text


def content_type_of(made: Any) -> str:
    """As the result says itself; else that of an event where it is one."""
    if isinstance(made, dict) and made.get("contenttype"):
        return str(made["contenttype"])
    return STRUCTURED if isinstance(made, dict) and "specversion" in made else JSON


def _encode(made: Any) -> bytes:
    return json.dumps(made, ensure_ascii=False, separators=(",", ":")).encode()


def _tells_of_the_event(header: str) -> bool:
    return header == "content-type" or header.startswith("ce-")


def _refused(status: int, reason: str) -> Response:
    shown = reason.encode("ascii", "replace").decode().replace("\n", " ").replace("\r", " ")
    return Response(status_code=status, headers={"reason": shown[:500]})
