"""What the sinks of the control plane stand on: a server that may speak TLS."""

from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime
from typing import Any

from certificate_files import DAY, authority
from penstock.certificates import issue
from penstock.controllers.sinks.server import SinkServer
from penstock.tls.server import show

OWN = authority("own")
NAME = "job-sink.knative-eventing.svc.cluster.local"


async def tell_scheme(scope: Any, receive: Any, send: Any) -> None:
    """Answers with how it was asked."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": scope["scheme"].ljust(5).encode()})


async def test_a_sink_with_a_certificate_speaks_tls_by_its_name() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    show(context, issue(OWN, "sinks", [NAME], DAY, datetime.now(UTC)))
    trusting = ssl.create_default_context(cadata=OWN.certificate.decode())
    for tls, scheme in ((None, b"http "), (context, b"https")):
        server = SinkServer(tell_scheme, tls)
        running = asyncio.create_task(server.run())
        host, port = server.address.split(":")
        reader, writer = await asyncio.open_connection(
            host, int(port), ssl=trusting if tls else None, server_hostname=NAME if tls else None
        )
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        assert (await reader.read()).endswith(scheme)
        writer.close()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
