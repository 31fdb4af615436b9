"""Server-sent events, which send live numbers to open pages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from functools import partial

import msgspec
from starlette.requests import Request
from starlette.responses import StreamingResponse

from penstock.console.console import Console, OperatorsOnly, console_of
from penstock.console.numbers import Frame
from penstock.console.sessions import Session
from penstock.operations.route_rates import RouteRow
from penstock.runtime.errors import UserError


def stream(request: Request, messages: AsyncGenerator[bytes], check: Callable[[], object]) -> StreamingResponse:
    """A stream of messages; `message` makes one. It ends when the client disconnects, the iterator ends, or the session
    ends or loses its permissions. `check` raises if the session may not read the stream; it may block.
    """
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(_while_allowed(request, messages, check), media_type="text/event-stream", headers=headers)


async def _while_allowed(
    request: Request, messages: AsyncGenerator[bytes], check: Callable[[], object]
) -> AsyncGenerator[bytes]:
    console = console_of(request)
    session = console.session(request)
    checked = None if session is None else session.checked
    try:
        async for one in messages:
            if session is None or not await _holds(console, session):
                return
            if session.checked != checked:
                checked = session.checked
                try:
                    await asyncio.to_thread(check)
                except (UserError, OperatorsOnly):
                    return
            yield one
    finally:
        await messages.aclose()


async def _holds(console: Console, session: Session) -> bool:
    try:
        return await console.sessions.holds(session)
    except UserError:
        return False


def message(content: object, name: str = "") -> bytes:
    """One message as JSON."""
    kind = f"event: {name}\n".encode() if name else b""
    return kind + b"data: " + msgspec.json.encode(content) + b"\n\n"


async def numbers(request: Request) -> StreamingResponse:
    """`/live/numbers`: the numbers of all routes, first complete, then changes."""
    console = console_of(request)
    check = partial(may_see_all, console, request)
    await asyncio.to_thread(check)
    return stream(request, _numbers(console.numbers.frames()), check)


def may_see_all(console: Console, request: Request) -> None:
    """The numbers name every route, so only users who may list all routes can see them. Raises UserError."""
    session = console.session(request)
    if session is None or not session.owner.is_operator:
        console.objects.of(console.api(request))


async def _numbers(frames: AsyncIterator[Frame]) -> AsyncGenerator[bytes]:
    sent: dict[str, object] = {}
    # How long the browser waits before it reconnects, such as after a restart.
    yield b"retry: 3000\n\n"
    async for frame in frames:
        now: dict[str, object] = {_key(*name): shape(row) for name, row in frame.rows.items()}
        now |= {_key(*name): {"rate": round(row.rate, 2)} for name, row in frame.targets.items()}
        changed = {key: value for key, value in now.items() if sent.get(key) != value}
        gone = [key for key in sent if key not in now]
        sent = now
        yield message({"at": frame.at, "changed": changed, "gone": gone, "problem": frame.problem})


def shape(row: RouteRow) -> dict[str, object]:
    """The numbers of a route as JSON."""
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
