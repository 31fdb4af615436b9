"""The actor `event_display`: prints every event that it receives, as Knative's image of that name does."""

from __future__ import annotations

import contextlib

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from penstock.events import http, media_type
from penstock.events.event import CloudEvent, MalformedEvent
from penstock.workloads.actors.http_actor import HttpActor
from penstock.workloads.actors.reporting import PodLog
from penstock.workloads.server import BodyTooLarge, TakeListener, body_of

HEALTH_PATH = "/healthz"
MOST_BYTES = 16 * 1024 * 1024
_SHOWN = ("type", "source", "subject", "id", "time", "dataschema", "datacontenttype")


class EventDisplay(HttpActor):
    """The program."""

    def __init__(self, log: PodLog, take_listener: TakeListener) -> None:
        super().__init__(take_listener)
        self._log = log

    async def answer(self, request: Request) -> Response:
        """See `HttpActor`."""
        if request.url.path == HEALTH_PATH:
            return Response(status_code=204)
        if request.method not in ("POST", "OPTIONS"):
            return Response(status_code=405)
        if request.method == "OPTIONS":
            return Response(status_code=200, headers={"Allow": "POST, OPTIONS"})
        try:
            body = await body_of(request, MOST_BYTES)
        except BodyTooLarge:
            return Response(status_code=413)
        try:
            event = http.from_http(http.fold_headers(request.scope["headers"]), body)
        except MalformedEvent as malformed:
            return Response(str(malformed), status_code=400)
        self._log.write(display(event))
        return Response(status_code=200)


def display(event: CloudEvent) -> str:
    """The event as text."""
    lines = ["☁️  cloudevents.Event", "Context Attributes,", f"  specversion: {event.specversion}"]
    known = {"specversion", *_SHOWN}
    lines += [f"  {name}: {event.attributes[name]}" for name in _SHOWN if name in event.attributes]
    extensions = sorted(name for name in event.attributes if name not in known)
    if extensions:
        lines += ["Extensions,", *(f"  {name}: {event.attributes[name]}" for name in extensions)]
    if event.data is not None:
        lines += _data(event.data, event.attributes.get("datacontenttype", ""))
    return "\n".join(lines)


def _data(data: bytes, content_type: str) -> list[str]:
    media = media_type.parse(content_type)
    if media is not None and media.essence == "application/json":
        with contextlib.suppress(msgspec.MsgspecError):
            # Only reformatted, so that numbers and escapes stay as the sender wrote them.
            data = msgspec.json.format(data, indent=2).replace(b"\n", b"\n  ")
    return ["Data,", f"  {data.decode(errors='replace')}"]
