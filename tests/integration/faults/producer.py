"""A producer and a subscriber that keep books: what was accepted, and what arrived how often."""

from __future__ import annotations

import http.client
import http.server
import itertools
import threading
import time
import urllib.error
import urllib.request
from collections import Counter

from tests.waiting import eventually

_RUNS = itertools.count()
"""No two producers send the same id, so that what is left of one fault is not taken for an event of the next."""


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024
    """A dispatcher that comes back opens many connections at once; those beyond this number would wait for long."""


class Subscriber:
    """Counts deliveries by event id."""

    def __init__(self) -> None:
        self.received: Counter[str] = Counter()
        self.status = 202
        """What it answers."""
        books, subscriber = self.received, self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("content-length", 0)))
                books[self.headers["ce-id"]] += 1
                self.send_response(subscriber.status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Nothing: the books are enough."""

        self._server = _Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Listens no more."""
        self._server.shutdown()
        self._server.server_close()


class Producer:
    """Sends events at a steady pace from several threads until told to stop; whatever goes wrong, it goes on."""

    def __init__(self, url: str, threads: int = 4, pause: float = 0.05) -> None:
        self.url = url
        self._run = next(_RUNS)
        self.accepted: set[str] = set()
        self.refused: Counter[str] = Counter()
        """By status code, or by the name of the error where there was no answer."""
        self.without_retry_after = 0
        """Answers 503 that did not say when to try again."""
        self._ended = [0] * threads
        """Of each thread, how many of its requests have ended."""
        self._pause = pause
        self._done = threading.Event()
        self._threads = [threading.Thread(target=self._send, args=(number,)) for number in range(threads)]
        for thread in self._threads:
            thread.start()

    def _send(self, number: int) -> None:
        count = 0
        while not self._done.is_set():
            count += 1
            ident = f"{self._run}-{number}-{count}"
            request = urllib.request.Request(
                self.url,
                data=b"{}",
                headers={
                    "ce-specversion": "1.0",
                    "ce-id": ident,
                    "ce-source": "/faults",
                    "ce-type": "fault",
                    "content-type": "application/json",
                },
            )
            try:
                with urllib.request.urlopen(request, timeout=60) as answer:
                    if answer.status == 202:
                        self.accepted.add(ident)
            except urllib.error.HTTPError as error:
                self.refused[str(error.code)] += 1
                self.without_retry_after += error.code == 503 and "retry-after" not in error.headers
                error.close()
            except (OSError, http.client.HTTPException) as error:
                self.refused[type(error).__name__] += 1
            self._ended[number] += 1
            time.sleep(self._pause)

    def wait_for(self, accepted: int) -> None:
        """Until so many events have been accepted."""
        try:
            eventually(lambda: len(self.accepted) >= accepted, 180)
        except BaseException:
            self.stop()
            raise

    def wait_for_answers(self) -> None:
        """Until every request that is under way now has its answer."""
        before = list(self._ended)
        eventually(lambda: all(now > then for now, then in zip(self._ended, before, strict=True)), 180)

    def stop(self) -> None:
        """Ends sending; every answer is in the books."""
        self._done.set()
        for thread in self._threads:
            thread.join(120)
