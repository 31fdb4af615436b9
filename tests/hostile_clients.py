"""What hostile clients send, and the bounds that hold whatever they do: shared by the tests of both servers."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import time
from collections.abc import Iterator

import psutil

WAIT_SECONDS = 60.0
"""For an answer, or the end of a connection: machines may be slow."""

_SECOND = b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n"
SMUGGLING = {
    "length and chunks": b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + _SECOND,
    "chunks and length": b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n" + _SECOND,
    "two lengths": b"Content-Length: 0\r\nContent-Length: 31\r\n\r\n" + _SECOND,
    "a length with a sign": b"Content-Length: +0\r\n\r\n" + _SECOND,
    "a length that is a list": b"Content-Length: 0, 31\r\n\r\n" + _SECOND,
    "an unknown coding": b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + _SECOND,
    "chunked before another coding": b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "a bare CR": b"X: a\rContent-Length: 0\r\n\r\n",
    "a bare LF": b"X: a\nTransfer-Encoding: chunked\n\n0\n\n",
    "a folded line": b"X: a\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a space before the colon": b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "a NUL": b"X: a\x00b\r\nContent-Length: 0\r\n\r\n",
    "a chunk size with a sign": b"Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
    "a chunk size beyond all numbers": b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n\r\n",
}
"""Behind the first lines of a request: what two servers could read as different requests."""


async def answer_to(port: int, *pieces: bytes, ends: bool = False) -> bytes:
    """All that the server says until it ends the connection; the client ends its side before that only if told."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for piece in pieces:
            with contextlib.suppress(ConnectionError):
                writer.write(piece)
                await writer.drain()
        if ends:
            writer.write_eof()
        async with asyncio.timeout(WAIT_SECONDS):
            return await _until_closed(reader)
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def _until_closed(reader: asyncio.StreamReader) -> bytes:
    said = b""
    with contextlib.suppress(ConnectionError):
        while part := await reader.read(65536):
            said += part
    return said


def codes(said: bytes) -> list[int]:
    """The status codes of responses."""
    return [int(part[:3]) for part in said.split(b"HTTP/1.1 ")[1:]]


@contextlib.contextmanager
def bounded(mib: int, cpu_seconds: float) -> Iterator[None]:
    """Memory of this process, server and client together, grows no more than that, nor does its time."""
    process = psutil.Process()
    before, began = process.memory_info().rss, time.process_time()
    yield
    grown, used = (process.memory_info().rss - before) / 1024 / 1024, time.process_time() - began
    assert grown < mib, f"{grown:.0f} MiB more"
    assert used < cpu_seconds, f"{used:.1f} s of processor time"


def allow_files(count: int) -> None:
    """Lets this process open so many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(count, hard), hard))
