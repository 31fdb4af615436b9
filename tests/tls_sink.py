"""A sink over TLS that one authority vouches for: it accepts every event, and notes its type and the sender's token."""

from __future__ import annotations

import contextlib
import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from penstock.web.certificates import KeyPair, issue_certificate
from penstock.web.tls_context import load_pair
from tests.certificate_files import DAY


class TlsSink(ThreadingHTTPServer):
    """The server."""

    daemon_threads = True

    def __init__(self, signer: KeyPair, host: str = "127.0.0.1") -> None:
        """`host` is whom its certificate is for."""
        super().__init__(("127.0.0.1", 0), _Taking)
        self.types: list[str | None] = []
        self.tokens: list[str | None] = []
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        pair = issue_certificate(signer, "sink", [host], DAY, datetime.now(UTC))
        load_pair(context, pair.certificate, pair.key)
        self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"https://127.0.0.1:{self.server_port}/"

    def handle_error(self, *_: object) -> None:
        """Clients that do not believe it are what the tests are about."""


class _Taking(BaseHTTPRequestHandler):
    server: TlsSink

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.server.types.append(self.headers["ce-type"])
        self.server.tokens.append(self.headers["authorization"])
        self.send_response(202)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Tests have other means."""


@contextlib.contextmanager
def served(signer: KeyPair, host: str = "127.0.0.1") -> Iterator[TlsSink]:
    """A sink while it is served."""
    sink = TlsSink(signer, host)
    thread = threading.Thread(target=sink.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield sink
    finally:
        sink.shutdown()
        sink.server_close()
        thread.join()
