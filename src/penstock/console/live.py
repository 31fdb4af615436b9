"""Server-sent events: how numbers reach a page that is open."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec
from starlette.requests import Request
from starlette.responses import StreamingResponse

from penstock.console.console import console_of
from penstock.console.numbers import Frame
from penstock.operations.route_rates import Row


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
    return stream(_numbers(console_of(request).numbers.frames()))


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


def shape(row: Row) -> dict[str, object]:
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
