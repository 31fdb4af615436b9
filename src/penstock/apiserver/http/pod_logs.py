"""What Pods have written: `kubectl logs` reads the files that the node keeps, and follows them while the Pod runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

from starlette.responses import StreamingResponse

from penstock.apiserver import errors
from penstock.apiserver.http.requests import whole_number

CHUNK = 64 * 1024
POLL_SECONDS = 0.2


def respond(path: Path, query: Mapping[str, str], running: Callable[[], bool]) -> StreamingResponse:
    """The log as text; with `follow` until the Pod does not run any more."""
    if query.get("previous") == "true":
        raise errors.bad_request("logs of previous runs of a container are not kept")
    tail = whole_number(query, "tailLines")
    limit = whole_number(query, "limitBytes")
    follow = query.get("follow") == "true"
    lines = _read(path, tail, limit, running if follow else None)
    return StreamingResponse(lines, media_type="text/plain")


async def _read(
    path: Path, tail: int | None, limit: int | None, running: Callable[[], bool] | None
) -> AsyncIterator[bytes]:
    position = await asyncio.to_thread(_tail_position, path, tail) if tail is not None else 0
    left = limit
    while True:
        # Asked before reading: what is written until the Pod ends is read afterwards.
        last = running is None or not running()
        while chunk := await asyncio.to_thread(_chunk, path, position):
            position += len(chunk)
            if left is not None:
                chunk, left = chunk[:left], left - len(chunk)
            yield chunk
            if left is not None and left <= 0:
                return
        if last:
            return
        await asyncio.sleep(POLL_SECONDS)


def _chunk(path: Path, position: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(position)
            return file.read(CHUNK)
    except FileNotFoundError:
        return b""


def _tail_position(path: Path, lines: int) -> int:
    """Where the last `lines` lines begin, found by reading backwards."""
    try:
        with path.open("rb") as file:
            end = position = file.seek(0, 2)
            # A newline at the very end closes the last line instead of opening another.
            wanted, first = lines, True
            while position > 0:
                start = max(0, position - CHUNK)
                file.seek(start)
                block = file.read(position - start)
                for index in range(len(block) - 1, -1, -1):
                    if block[index] != 0x0A or (first and start + index == end - 1):
                        continue
                    wanted -= 1
                    if wanted <= 0:
                        return start + index + 1 if lines else end
                position = start
            return 0 if lines else end
    except FileNotFoundError:
        return 0
