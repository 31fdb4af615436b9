"""The event of a request, or the answer to one that has none."""

from __future__ import annotations

from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response

from penstock.events import http
from penstock.events.event import CloudEvent, MalformedEvent


async def event_of(request: Request, most_bytes: int) -> CloudEvent | Response:
    """The event; never more than so many bytes of it are in memory."""
    body = b""
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > most_bytes:
                return PlainTextResponse(f"an event may have {most_bytes} bytes\n", 413)
        return http.from_http(http.fold_headers(request.scope["headers"]), body)
    except MalformedEvent as error:
        return PlainTextResponse(f"{error}\n", 400)
    except ClientDisconnect:
        return Response(status_code=400)
