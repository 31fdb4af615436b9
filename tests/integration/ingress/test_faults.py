"""Ends, crashes and shortages: whatever happens, an event answered with 202 is in Kafka."""

from __future__ import annotations

import http.client
import json
import signal
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from penstock.engine.jars import jar_cache
from penstock.settings import Settings
from tests.integration.ingress.ingress_processes import EVENT, first_snapshot, ingress_process, publish, stored_ids
from tests.running import held_ports, running_kafka, with_held_ports
from tests.waiting import eventually


class Load:
    """Clients that send all the time, each on its own keep-alive connection, and note every answer."""

    def __init__(self, port: int, clients: int) -> None:
        self.accepted: list[str] = []
        self.refused: list[int] = []
        self.broken: list[str] = []
        self._port = port
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._client) for _ in range(clients)]

    def wait_for_more(self, count: int) -> None:
        """Until more than so many events have been accepted from now on."""
        seen = len(self.accepted)
        eventually(lambda: len(self.accepted) > seen + count)

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(90)

    def _client(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        while not self._stop.is_set():
            ident = uuid.uuid4().hex
            try:
                connection.request("POST", "/shop/orders", b"x" * 200, {**EVENT, "ce-id": ident})
                response = connection.getresponse()
                response.read()
            except (OSError, http.client.HTTPException) as error:
                self.broken.append(repr(error))
                connection.close()
                time.sleep(0.02)
                continue
            if response.status == 202:
                self.accepted.append(ident)
            else:
                self.refused.append(response.status)
        connection.close()


@pytest.fixture
def shared_port(ingress_kafka: Settings) -> Settings:
    """Settings of further ingress processes, on a port of their own."""
    [port] = held_ports(1)
    return ingress_kafka.model_copy(update={"port": port})


def test_one_of_two_ends_in_order_and_nobody_notices(shared_port: Settings, tmp_path: Path) -> None:
    with (
        ingress_process(shared_port, tmp_path),
        Load(shared_port.port, 8) as load,
        ingress_process(shared_port, tmp_path) as leaving,
        # More clients come while both serve, so that both have connections.
        Load(shared_port.port, 8) as more,
    ):
        load.wait_for_more(50)
        more.wait_for_more(50)
        leaving.process.send_signal(signal.SIGTERM)
        assert leaving.process.wait(60) == 0
        more.wait_for_more(50)
    assert (load.broken + more.broken, load.refused + more.refused) == ([], [])
    accepted = load.accepted + more.accepted
    counts = Counter(stored_ids(shared_port))
    assert len(accepted) > 100
    assert {counts[ident] for ident in accepted} == {1}


def test_a_killed_ingress_loses_nothing_it_has_answered(shared_port: Settings, tmp_path: Path) -> None:
    with Load(shared_port.port, 8) as load:
        for _ in range(2):
            with ingress_process(shared_port, tmp_path) as ingress:
                load.wait_for_more(50)
                ingress.process.kill()
                ingress.process.wait(60)
    assert len(load.accepted) > 100
    assert set(load.accepted) <= set(stored_ids(shared_port))


def test_a_full_disk_is_answered_507(shared_port: Settings, tmp_path: Path) -> None:
    settings = shared_port.model_copy(update={"min_free_disk_mib": 1 << 40})
    with ingress_process(settings, tmp_path) as ingress:
        status, text = ingress.post("/shop/orders", {**EVENT, "ce-id": "1"})
        unready = ingress.post("/readyz", {}, method="GET")
    assert status == 507
    assert b"disk" in text
    assert unready == (503, b"the ingress is not ready: the disk is nearly full\n")


def test_connections_beyond_the_limit_are_answered_503_and_the_others_go_on(
    shared_port: Settings, tmp_path: Path
) -> None:
    settings = shared_port.model_copy(update={"max_connections": 3})
    with ingress_process(settings, tmp_path) as ingress:
        served = [http.client.HTTPConnection("127.0.0.1", settings.port, timeout=60) for _ in range(3)]

        def sent(connection: http.client.HTTPConnection) -> int:
            connection.request("POST", "/shop/orders", b"x", {**EVENT, "ce-id": uuid.uuid4().hex})
            response = connection.getresponse()
            response.read()
            return response.status

        assert [sent(connection) for connection in served] == [202] * 3
        for _ in range(5):
            assert ingress.post("/shop/orders", {**EVENT, "ce-id": "beyond"}, bytes(100_000))[0] == 503
        assert [sent(connection) for connection in served] == [202] * 3
        served.pop().close()
        eventually(lambda: ingress.post("/shop/orders", {**EVENT, "ce-id": "room"})[0] == 202)
        for connection in served:
            connection.close()
    assert "beyond" not in stored_ids(settings)


def test_too_many_pending_events_are_answered_429(shared_port: Settings, tmp_path: Path) -> None:
    settings = shared_port.model_copy(update={"max_pending_events": 1})
    batch = json.dumps([{"specversion": "1.0", "id": str(n), "source": "/s", "type": "t"} for n in range(2)]).encode()
    with ingress_process(settings, tmp_path) as ingress:
        with Load(settings.port, 8) as load:
            eventually(lambda: load.refused and load.accepted)
        # It would never fit, so 'later' would be the wrong answer.
        assert ingress.post("/shop/orders", {"Content-Type": "application/cloudevents-batch+json"}, batch)[0] == 413
    assert set(load.refused) == {429}
    assert set(load.accepted) <= set(stored_ids(settings))


def test_a_kafka_that_is_away_is_answered_503(tmp_path: Path, jar_folders: jar_cache.Jars) -> None:
    settings = with_held_ports(Settings(data_dir=tmp_path, store_timeout_seconds=1))
    with running_kafka(settings, jar_folders) as kafka:
        publish(settings, *first_snapshot())
        with ingress_process(settings, tmp_path) as ingress:
            eventually(lambda: ingress.post("/shop/orders", {**EVENT, "ce-id": "before"})[0] == 202)
            eventually(lambda: ingress.post("/readyz", {}, method="GET") == (200, b"ok\n"))
            kafka.send_signal(signal.SIGSTOP)
            try:
                # Nobody sends anything, and it notices all the same.
                gone = (503, b"the ingress is not ready: Kafka takes no events\n")
                eventually(lambda: ingress.post("/readyz", {}, method="GET") == gone)
                connection = http.client.HTTPConnection("127.0.0.1", settings.port, timeout=60)
                connection.request("POST", "/shop/orders", b"", {**EVENT, "ce-id": "during"})
                response = connection.getresponse()
                assert (response.status, response.headers["Retry-After"]) == (503, "1")
                connection.close()
            finally:
                kafka.send_signal(signal.SIGCONT)
            eventually(lambda: ingress.post("/readyz", {}, method="GET")[0] == 200)
            eventually(lambda: ingress.post("/shop/orders", {**EVENT, "ce-id": "after"})[0] == 202)
        assert {"before", "after"} <= set(stored_ids(settings))


class Collector(BaseHTTPRequestHandler):
    """Takes spans as an OpenTelemetry collector does."""

    received: ClassVar[list[bytes]] = []

    def do_POST(self) -> None:
        self.received.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Not of interest."""


@pytest.fixture
def collector() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Collector)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_spans_are_exported_where_a_collector_is_named(shared_port: Settings, tmp_path: Path, collector: str) -> None:
    environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector, "OTEL_BSP_SCHEDULE_DELAY": "100"}
    trace = uuid.uuid4().hex
    headers = {**EVENT, "ce-id": "traced", "traceparent": f"00-{trace}-00f067aa0ba902b7-01"}
    with ingress_process(shared_port, tmp_path, environment) as ingress:
        assert ingress.post("/shop/orders", headers)[0] == 202
        eventually(lambda: any(bytes.fromhex(trace) in spans for spans in Collector.received))
    spans = b"".join(spans for spans in Collector.received if bytes.fromhex(trace) in spans)
    for expected in (b"broker:orders.shop", b"messaging.system", b"knative", b"traced", b"penstock-ingress"):
        assert expected in spans
