"""The console as a component: listens, serves its pages until told to stop, and lets streams end."""

from __future__ import annotations

import contextlib

from penstock.console.app import application
from penstock.console.console import Console
from penstock.lifecycle import Lifecycle, first
from penstock.serving import HttpServer, listen
from penstock.settings import Settings
from penstock.tls.server import ServerTls


async def run(settings: Settings, lifecycle: Lifecycle) -> None:
    """Serves until told to stop."""
    given = listen(lifecycle, "the console", settings.host, settings.console_port, "console_port")
    with contextlib.closing(given) as listener:
        host, port = listener.getsockname()[:2]
        console = Console(settings.model_copy(update={"console_port": port}), lifecycle.stopping)
        app = application(console)
        tls = ServerTls(settings) if settings.tls else None
        if tls is not None:
            tls.begin(lifecycle)
        server = HttpServer(app, listener, None if tls is None else tls.context)
        try:
            async with server.listening(settings.drain_seconds):
                lifecycle.ready(url=f"{settings.scheme}://{host}:{port}")
                await first(lifecycle.stopping.wait(), *([] if tls is None else [tls.run()]))
        finally:
            await app.state.events.close()
            console.close()
