"""Server-sent events: how numbers reach a page that is open."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec
from starlette.requests import Request
from starlette.responses import StreamingResponse

from penstock.console.console import Console, console_of
from penstock.console.numbers import Frame
from penstock.operations.route_rates import RouteRow


def stream(messages: AsyncIterator[bytes]) -> StreamingResponse:
    """A stream of messages; `message` makes one. It ends when the reader goes away or the iterator ends."""
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(messages, media_type="text/event-stream", headers=headers)


def message(content: object, name: str = "") -> bytes:
    """One message as JSON."""
    kind = f"event: {name}\n".encode() if name else b""
    return kind + b"data: " + msgspec.json.encode(content) + b"\n\n"


async def numbers(request: Request) -> StreamingResponse:
    """`/live/numbers`: the numbers of all routes, at first whole and then what has changed."""
    console = console_of(request)
    await asyncio.to_thread(may_see_all, console, request)
    return stream(_numbers(console.numbers.frames()))


def may_see_all(console: Console, request: Request) -> None:
    """Numbers name every route: they are for operators, and for those whom the API lists everything. Raises Problem."""
    session = console.session(request)
    if session is None or not session.is_operator:
        console.objects.of(console.api(request))


async def _numbers(frames: AsyncIterator[Frame]) -> AsyncIterator[bytes]:
    sent: dict[str, object] = {}
    # The browser waits before it asks again; a console that was stopped is back within seconds.
    yield b"retry: 3000\n\n"
    async for frame in frames:
        now: dict[str, object] = {_key(*name): shape(row) for name, row in frame.rows.items()}
        now |= {_key(*name): {"rate": round(row.rate, 2)} for name, row in frame.targets.items()}
        changed = {key: value for key, value in now.items() if sent.get(key) != value}
        gone = [key for key in sent if key not in now]
        sent = now
        yield message({"at": frame.at, "changed": changed, "gone": gone, "problem": frame.problem})


def shape(row: RouteRow) -> dict[str, object]:
    """A route's numbers as scripts read them."""
    return {
        "rate": round(row.rate, 2),
        "failures": round(row.failures, 2),
        "p50": None if row.p50 is None else round(row.p50, 4),
        "p99": None if row.p99 is None else round(row.p99, 4),
        "lag": row.lag,
        "oldest": round(row.oldest),
        "dropped": row.dropped,
        "unreachable": row.unreachable,
    }


def _key(kind: str, namespace: str, name: str) -> str:
    return f"{kind}/{namespace}/{name}"
