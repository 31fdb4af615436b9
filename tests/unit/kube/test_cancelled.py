"""A request that is cancelled during the TLS handshake leaves no socket open."""

from __future__ import annotations

import asyncio
import ssl

import httpcore2
import pytest

from penstock.kube.client import _Connection


class HangingHandshake(httpcore2.AsyncNetworkStream):
    """A connection to a server that never answers the handshake."""

    def __init__(self) -> None:
        self.begun, self.closed = asyncio.Event(), False

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109  # as httpcore has it
    ) -> httpcore2.AsyncNetworkStream:
        self.begun.set()
        await asyncio.Event().wait()
        return self

    async def aclose(self) -> None:
        self.closed = True


async def test_a_handshake_that_is_cancelled_closes_the_connection() -> None:
    stream = HangingHandshake()
    handshake = asyncio.create_task(_Connection(stream).start_tls(ssl.create_default_context()))
    await stream.begun.wait()
    handshake.cancel()
    with pytest.raises(asyncio.CancelledError):
        await handshake
    assert stream.closed
