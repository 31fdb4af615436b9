"""Subscribers by the path of their URL: each answers with a status that the test chooses, and keeps a book."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Subscribers(ThreadingHTTPServer):
    """The server of all of them."""

    daemon_threads = True
    request_queue_size = 1024

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answering)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.statuses: dict[str, int] = {}
        """By path; those that are not here answer 202."""
        self.replying: set[str] = set()
        """Paths that answer with an event of the same id."""
        self._lock = threading.Lock()
        self._offered: dict[str, Counter[str]] = {}
        self._taken: dict[str, Counter[str]] = {}

    def offered_at(self, path: str) -> Counter[str]:
        """How often each event was offered under a path."""
        with self._lock:
            return Counter(self._offered.get(path, Counter()))

    def taken_at(self, path: str) -> Counter[str]:
        """How often each event was taken under a path."""
        with self._lock:
            return Counter(self._taken.get(path, Counter()))

    def note(self, path: str, ident: str) -> int:
        """Books an event that is offered; the status to answer with."""
        status = self.statuses.get(path, 202)
        with self._lock:
            self._offered.setdefault(path, Counter())[ident] += 1
            if status < 300:
                self._taken.setdefault(path, Counter())[ident] += 1
        return status


class _Answering(BaseHTTPRequestHandler):
    server: Subscribers
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        ident = self.headers["ce-id"]
        status = self.server.note(self.path, ident)
        replies = status < 300 and self.path in self.server.replying
        self.send_response(200 if replies else status)
        if replies:
            for name, value in {"id": ident, "source": self.path, "type": "reply", "specversion": "1.0"}.items():
                self.send_header(f"ce-{name}", value)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """The books are enough."""


@contextlib.contextmanager
def listening() -> Iterator[Subscribers]:
    """Subscribers while they listen."""
    serving = Subscribers()
    thread = threading.Thread(target=serving.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield serving
    finally:
        serving.shutdown()
        serving.server_close()
        thread.join()
