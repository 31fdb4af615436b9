"""What takes the requests of RequestReplies: sends them to the Broker, and answers with the event that is the reply.

The request's event is accepted by the Broker and as durable as any; only the wait for its reply is in memory. Whoever
got no answer, because the time was over or this process ended, does not know what came of it, and may ask again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import httpx2
import structlog
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from penstock.controllers.api import BROKER, REQUEST_REPLY, Key
from penstock.controllers.sinks.requests import event_of
from penstock.controllers.tracker import Tracker
from penstock.events import http
from penstock.events.event import CloudEvent
from penstock.observability.logs import describe
from penstock.resources.requestreply.correlation import correlation_of, request_of
from penstock.resources.requestreply.model import RequestReply

MOST_WAITING = 10_000
SEND_SECONDS = 30.0

log = structlog.get_logger()

Waiting = tuple[Key, str]
"""A RequestReply, and the id of the request."""


class RequestReplies:
    """An ASGI application."""

    def __init__(self, tracker: Tracker, keys: Mapping[Key, list[bytes]], max_event_bytes: int) -> None:
        self._tracker, self._keys, self._most = tracker, keys, max_event_bytes
        self._waiting: dict[Waiting, asyncio.Future[CloudEvent]] = {}
        self._client = httpx2.AsyncClient(trust_env=False, timeout=SEND_SECONDS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            response = await self._answer(Request(scope, receive))
            await response(scope, receive, send)

    async def close(self) -> None:
        """Ends its connections."""
        await self._client.aclose()

    async def _answer(self, request: Request) -> Response:
        if request.method != "POST":
            return PlainTextResponse("events are sent by POST\n", 405, {"allow": "POST"})
        parts = request.scope["path"].strip("/").split("/")
        key, is_reply = Key("", ""), parts[2:] == ["reply"]
        if len(parts) == 2 or is_reply:
            key = Key(*parts[:2])
        known = self._tracker.informer(REQUEST_REPLY)
        obj = known.get(key)
        if obj is None and not known.synced.is_set():
            return PlainTextResponse("the RequestReplies are not known yet\n", 503)
        if obj is None:
            return PlainTextResponse("there is no RequestReply at this path\n", 404)
        event = await event_of(request, self._most)
        if isinstance(event, Response):
            return event
        wanted = RequestReply.read(obj)
        return self._reply(key, wanted, event) if is_reply else await self._ask(key, wanted, event)

    def _reply(self, key: Key, wanted: RequestReply, event: CloudEvent) -> Response:
        """A reply has come, or what pretends to be one."""
        correlation = event.attributes.get(wanted.reply_attribute)
        asked = None if correlation is None else request_of(correlation, self._keys.get(key, []))
        if asked is None:
            return PlainTextResponse("this is no reply to a request of this RequestReply\n", 400)
        waiting = self._waiting.get((key, asked))
        if waiting is not None and not waiting.done():
            waiting.set_result(event)
        return Response(status_code=202)

    async def _ask(self, key: Key, wanted: RequestReply, event: CloudEvent) -> Response:
        keys, place = self._keys.get(key), (key, event.id)
        broker = self._tracker.informer(BROKER).get(Key(key.namespace, wanted.broker))
        url = (((broker or {}).get("status") or {}).get("address") or {}).get("url")
        if not keys or not url or len(self._waiting) >= MOST_WAITING:
            return PlainTextResponse("the RequestReply is not ready, or too many wait\n", 503)
        if place in self._waiting:
            return PlainTextResponse(f"a request with the id {event.id} waits for its reply already\n", 409)
        reply = self._waiting[place] = asyncio.get_running_loop().create_future()
        try:
            sent = event.with_attributes(**{wanted.correlation_attribute: correlation_of(event.id, keys[0])})
            headers, body = http.to_binary(sent)
            accepted = await self._client.post(str(url), headers=headers, content=body)
            if not accepted.is_success:
                return PlainTextResponse(f"the Broker answered {accepted.status_code}\n", 502)
            async with asyncio.timeout(wanted.timeout):
                return _as_response(await reply)
        except TimeoutError:
            return PlainTextResponse(f"no reply came within {wanted.timeout:g} s\n", 504)
        except httpx2.HTTPError as error:
            log.warning("a request did not reach its Broker", namespace=key.namespace, error=describe(error))
            return PlainTextResponse("the Broker cannot be reached\n", 502)
        finally:
            del self._waiting[place]


def _as_response(event: CloudEvent) -> Response:
    headers, body = http.to_binary(event)
    response = Response(body, 200)
    for name, value in headers:
        response.headers[name] = value
    return response
