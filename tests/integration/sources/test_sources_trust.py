"""By which authorities a source believes its sink, over real TLS."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from certificate_files import DAY, authority
from penstock.certificates import issue
from penstock.contract.names import Location
from penstock.events.event import CloudEvent
from penstock.resources.resolution import Address
from penstock.sources.sinks import NotAccepted, Sinks
from penstock.tls.server import show

OWN, OTHER = authority("own"), authority("other")
OWN_PEM, OTHER_PEM = OWN.certificate.decode(), OTHER.certificate.decode()
EVENT = CloudEvent({"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}, b"x")


class Taking(BaseHTTPRequestHandler):
    """Accepts everything."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(202)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Tests have other means."""


class Sink(ThreadingHTTPServer):
    """A server that the authority `own` vouches for."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that do not believe it are what the tests are about."""


@pytest.fixture
def sink() -> Iterator[str]:
    served = Sink(("127.0.0.1", 0), Taking)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    show(context, issue(OWN, "sink", ["127.0.0.1"], DAY, datetime.now(UTC)))
    served.socket = context.wrap_socket(served.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=served.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield f"https://127.0.0.1:{served.server_port}/"
    served.shutdown()
    served.server_close()
    thread.join()


async def test_certificates_of_the_sink_and_of_trust_bundles_count_together(sink: str) -> None:
    bundles = OTHER_PEM
    async with Sinks(Location, trusted=lambda: bundles) as sinks:
        with pytest.raises(NotAccepted, match="certificate"):
            await sinks.send(Address(sink), EVENT, "ns")
        await sinks.send(Address(sink, OTHER_PEM + OWN_PEM), EVENT, "ns")
        bundles = OTHER_PEM + OWN_PEM
        await sinks.send(Address(sink), EVENT, "ns")
        bundles = ""
        with pytest.raises(NotAccepted, match="certificate"):
            await sinks.send(Address(sink), EVENT, "ns")
