"""The console as a component: listens, serves its pages until told to stop, and lets streams end."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import uvicorn
from starlette.applications import Starlette

from penstock.console.app import application
from penstock.console.console import Console
from penstock.lifecycle import Lifecycle, first
from penstock.serving import ComponentServer
from penstock.settings import Settings
from penstock.sockets import bound_socket
from penstock.tls.server import NoCertificate, ServerTls


async def run(settings: Settings, lifecycle: Lifecycle) -> None:
    """Serves until told to stop."""
    with contextlib.closing(_listen(settings, lifecycle)) as listener:
        host, port = listener.getsockname()[:2]
        console = Console(settings.model_copy(update={"console_port": port}), lifecycle.stopping)
        app = application(console)
        tls = _certificate(settings, lifecycle)
        server = ComponentServer(_configured(app, settings, tls))
        serving = asyncio.create_task(server.serve(sockets=[listener]), name="console")
        try:
            await first(_ended(serving), server.listening.wait())
            if not serving.done():
                lifecycle.ready(url=f"{settings.scheme}://{host}:{port}")
                looking = [] if tls is None else [tls.run()]
                await first(_ended(serving), lifecycle.stopping.wait(), *looking)
        finally:
            server.should_exit = True
            await serving
            await app.state.events.close()
            console.close()


async def _ended(task: asyncio.Task[None]) -> None:
    await asyncio.wait({task})


def _listen(settings: Settings, lifecycle: Lifecycle) -> socket.socket:
    try:
        return bound_socket(settings.host, settings.console_port)
    except OSError as error:
        lifecycle.fail(f"the console {error.strerror}; free the port or choose another with console_port")
        raise


def _certificate(settings: Settings, lifecycle: Lifecycle) -> ServerTls | None:
    """None where the console speaks HTTP."""
    if not settings.tls:
        return None
    tls = ServerTls(settings)
    try:
        tls.look()
    except NoCertificate as error:
        lifecycle.fail(str(error))
        raise
    return tls


def _configured(app: Starlette, settings: Settings, tls: ServerTls | None) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        lifespan="off",
        access_log=False,
        log_config=None,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=max(1, round(settings.drain_seconds)),
        server_header=False,
        ssl_context_factory=None if tls is None else lambda _config, _default: tls.context,
    )
