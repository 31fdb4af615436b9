"""Serving the metrics of all processes on one port.

The numbers are read from the folder that the processes share. Gauges of processes that have ended are left out, and
so is everything about objects that are gone.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, generate_latest, make_wsgi_app
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from penstock.observability.tombstones import ObjectKey, gone_objects
from penstock.web.tls_server import FreshCertificate, SecureServing


class SharedMetrics(Collector):
    """What all processes have recorded in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._shared = MultiProcessCollector(None, path=str(folder))  # type: ignore[no-untyped-call]

    def collect(self) -> Iterable[Metric]:
        """The metrics as they stand."""
        for pid in _ended(self._folder):
            mark_process_dead(pid, str(self._folder))  # type: ignore[no-untyped-call]
        gone = gone_objects(self._folder)
        for metric in self._shared.collect():  # type: ignore[no-untyped-call]
            if gone:
                metric.samples = [sample for sample in metric.samples if _object_of(sample) not in gone]
            yield metric


def render(folder: Path) -> bytes:
    """The metrics in Prometheus' text format."""
    return generate_latest(_registry(folder))


class _Server(SecureServing, ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that disconnects is not an error."""


class _Handler(WSGIRequestHandler):
    def log_message(self, format: str, *arguments: object) -> None:
        """Scrapes come every few seconds: nothing to write down."""


def serve(
    host: str, port: int, folder: Path, certificate: FreshCertificate | None = None
) -> tuple[WSGIServer, threading.Thread]:
    """Serves `/metrics` from a thread, over TLS where there is a certificate; end it with `server.shutdown()` and join
    the thread."""
    server = make_server(host, port, make_wsgi_app(_registry(folder)), _family(host), _Handler)
    server.certificate = certificate
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    return server, thread


def _family(host: str) -> type[_Server]:
    class Server(_Server):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

    return Server


def _registry(folder: Path) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(SharedMetrics(folder))
    return registry


def _object_of(sample: Sample) -> ObjectKey:
    labels = sample.labels
    return labels.get("kind", ""), labels.get("namespace", ""), labels.get("name", "")


def _ended(folder: Path) -> Iterator[int]:
    """Processes that have left gauges behind."""
    for pid in {int(file.stem.rpartition("_")[2]) for file in folder.glob("gauge_live*_*.db")}:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            yield pid
        except PermissionError:
            continue
