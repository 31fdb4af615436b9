"""The health port of a role: `/livez`, `/readyz` and `/metrics`, answered from threads of their own.

`/livez` fails where the event loop has not turned for long: such a process can only be started again. `/readyz` asks
the role itself. Both say in words what is wrong.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from penstock.runtime.errors import UserError
from penstock.runtime.lifecycle import Lifecycle
from penstock.web.tls_server import FreshCertificate, SecureServing

STUCK_SECONDS = 60.0
"""A loop that has not turned for this long is not only busy."""
CLIENT_SECONDS = 10.0
TEXT = "text/plain; charset=utf-8"
METRICS = "text/plain; version=0.0.4; charset=utf-8"


class Health:
    """What the probes are answered by."""

    def __init__(self, lifecycle: Lifecycle, metrics: Path | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._lifecycle, self._metrics, self._clock = lifecycle, metrics, clock
        self._turned = clock()

    def turned(self) -> None:
        """The event loop is at work; called by it."""
        self._turned = self._clock()

    def answer(self, path: str) -> tuple[int, str, bytes]:
        """Status, content type and body for a path."""
        match path.partition("?")[0]:
            case "/livez" | "/healthz":
                silent = self._clock() - self._turned
                stuck = f"the event loop has not turned for {silent:.0f} s" if silent > STUCK_SECONDS else None
                return _verdict(stuck, "ok")
            case "/readyz":
                return _verdict(self._lifecycle.unready(), "standing by" if self._lifecycle.stands_by else "ok")
            case "/metrics" if self._metrics is not None:
                from penstock.observability.exposition import render

                return 200, METRICS, render(self._metrics)
            case _:
                return 404, TEXT, b"there is /livez, /readyz and /metrics\n"


def _verdict(problem: str | None, good: str) -> tuple[int, str, bytes]:
    return (200 if problem is None else 503), TEXT, f"{good if problem is None else problem}\n".encode()


@contextlib.contextmanager
def serving(health: Health, host: str, port: int, certificate: FreshCertificate | None = None) -> Iterator[int]:
    """Answers on the port; the number where it was left to chance. Raises UserError where it is taken."""
    server = _listen(host, port, health)
    server.certificate = certificate
    thread = threading.Thread(target=server.serve_forever, name="health port", daemon=True)
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join(2)


class _Server(SecureServing, ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A prober that hung up concerns nobody."""


def _listen(host: str, port: int, health: Health) -> _Server:
    class Handler(BaseHTTPRequestHandler):
        timeout = CLIENT_SECONDS

        def do_GET(self) -> None:
            status, content_type, body = health.answer(self.path)
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            """Probes come every few seconds: nothing to write down."""

        def log_error(self, format: str, *arguments: object) -> None:
            """A probe that gave up."""

    try:
        return _Server((host, port), Handler)
    except OSError as error:
        raise UserError(
            f"Cannot listen on the health port {host}:{port} ({error.strerror}).",
            "Choose another with --health-port NUMBER, or 0 for a free one.",
        ) from None
