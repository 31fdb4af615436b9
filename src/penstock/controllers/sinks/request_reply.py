"""Accepts the requests of RequestReplies: sends their event to the Broker, and responds with the reply event.

The Broker stores the request's event like any other; only the waiting for its reply is in memory. A client without a
response, because of a timeout or because this process ended, does not know the outcome, and may send it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import structlog
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from penstock.controllers.sinks.requests import RequestRejected, event_of
from penstock.controllers.tracker import Tracker
from penstock.events import http
from penstock.events.event import CloudEvent
from penstock.kube.kinds import BROKER, REQUEST_REPLY, Key
from penstock.resources.destinations import ResolvedAddress
from penstock.resources.requestreply import RequestReply, correlation_of, request_of
from penstock.sources.deliveries import NotAccepted, Sinks

MOST_WAITING = 10_000

log = structlog.get_logger()

Waiting = tuple[Key, str]
"""A RequestReply, and the id of the request."""


class RequestReplies:
    """An ASGI application."""

    def __init__(self, tracker: Tracker, keys: Mapping[Key, list[bytes]], sinks: Sinks, max_event_bytes: int) -> None:
        """`sinks` send to the address in a Broker's status. Users may be allowed to write that, so it is checked like
        other destinations of the namespace."""
        self._tracker, self._keys, self._sinks, self._most = tracker, keys, sinks, max_event_bytes
        self._waiting: dict[Waiting, asyncio.Future[CloudEvent]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            response = await self._respond(Request(scope, receive))
            await response(scope, receive, send)

    async def close(self) -> None:
        """Closes the connections."""
        await self._sinks.close()

    async def _respond(self, request: Request) -> Response:
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
        try:
            event = await event_of(request, self._most)
        except RequestRejected as error:
            return error.response
        wanted = RequestReply.read(obj)
        return self._reply(key, wanted, event) if is_reply else await self._request(key, wanted, event)

    def _reply(self, key: Key, wanted: RequestReply, event: CloudEvent) -> Response:
        """Handles a reply event, if its correlation is valid."""
        correlation = event.attributes.get(wanted.reply_attribute)
        request_id = None if correlation is None else request_of(correlation, self._keys.get(key, []))
        if request_id is None:
            return PlainTextResponse("this is not a reply to a request of this RequestReply\n", 400)
        waiting = self._waiting.get((key, request_id))
        if waiting is not None and not waiting.done():
            waiting.set_result(event)
        return Response(status_code=202)

    async def _request(self, key: Key, wanted: RequestReply, event: CloudEvent) -> Response:
        keys, request = self._keys.get(key), (key, event.id)
        broker = self._tracker.informer(BROKER).get(Key(key.namespace, wanted.broker))
        url = (((broker or {}).get("status") or {}).get("address") or {}).get("url")
        if not keys or not url or len(self._waiting) >= MOST_WAITING:
            return PlainTextResponse("the RequestReply is not ready, or too many wait\n", 503)
        if request in self._waiting:
            return PlainTextResponse(f"a request with the id {event.id} waits for its reply already\n", 409)
        reply = self._waiting[request] = asyncio.get_running_loop().create_future()
        try:
            sent = event.with_attributes(**{wanted.correlation_attribute: correlation_of(event.id, keys[0])})
            await self._sinks.send(ResolvedAddress(str(url)), sent, key.namespace)
            async with asyncio.timeout(wanted.timeout):
                return _as_response(await reply)
        except TimeoutError:
            return PlainTextResponse(f"there was no reply within {wanted.timeout:g} s\n", 504)
        except NotAccepted as error:
            log.warning("a request was not accepted by its Broker", namespace=key.namespace, error=str(error))
            problem = "cannot be reached" if error.status is None else f"returned {error.status}"
            return PlainTextResponse(f"the Broker {problem}\n", 502)
        finally:
            del self._waiting[request]


def _as_response(event: CloudEvent) -> Response:
    headers, body = http.to_binary(event)
    response = Response(body, 200)
    for name, value in headers:
        response.headers[name] = value
    return response
