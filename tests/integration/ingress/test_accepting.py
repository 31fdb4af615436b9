"""Events on their way into Kafka, through a real server."""

from __future__ import annotations

import http.client
import json
import time
import uuid
from pathlib import Path

from penstock.contract.routes import Target, Version
from penstock.observability import exposition
from tests.integration.ingress.ingress_processes import (
    BROKER,
    CHANNEL,
    EVENT,
    IngressProcess,
    acknowledged_versions,
    publish,
    stored,
    stored_events,
)
from tests.waiting import eventually


def test_an_event_is_durable_when_it_is_answered(ingress: IngressProcess) -> None:
    ident = uuid.uuid4().hex
    headers = {
        **EVENT,
        "ce-id": ident,
        "ce-partitionkey": "k1",
        "Content-Type": "application/json",
        "ce-subject": "%E2%82%AC",
    }
    assert ingress.post("/shop/orders", headers, b'{"a": 1}') == (202, b"")
    [(kept, value, _, key)] = [found for found in stored(ingress.settings) if found[0]["ce_id"] == ident.encode()]
    assert (value, key, kept["penstock_target"]) == (b'{"a": 1}', "k1", BROKER.uid.encode())
    assert (kept["content-type"], kept["ce_subject"].decode()) == (b"application/json", "€")
    assert kept["ce_knativebrokerttl"] == b"255"


def test_a_channel_is_reached_by_its_host_and_adds_nothing(ingress: IngressProcess) -> None:
    ident = uuid.uuid4().hex
    event = {"specversion": "0.3", "id": ident, "source": "/test", "type": "made.up", "data": [1, 2]}
    headers = {"Host": CHANNEL.hosts[0], "Content-Type": "application/cloudevents+json"}
    assert ingress.post("/", headers, json.dumps(event).encode())[0] == 202
    [found] = [found for found in stored_events(ingress.settings) if found.id == ident]
    assert found.attributes == {
        "specversion": "0.3",
        "id": ident,
        "source": "/test",
        "type": "made.up",
        "datacontenttype": "application/json",
    }
    assert found.data == b"[1, 2]"


def test_a_batch_is_stored_in_order_per_key(ingress: IngressProcess) -> None:
    source = f"/{uuid.uuid4().hex}"
    batch = [
        {"specversion": "1.0", "id": str(n), "source": source, "type": "t", "partitionkey": f"k{n % 3}"}
        for n in range(30)
    ]
    headers = {"Content-Type": "application/cloudevents-batch+json"}
    assert ingress.post("/shop/orders", headers, json.dumps(batch).encode())[0] == 202
    mine = [found for found in stored(ingress.settings) if found[0]["ce_source"] == source.encode()]
    for key in ("k0", "k1", "k2"):
        of_key = [(int(found[0]["ce_id"]), found[2]) for found in mine if found[3] == key]
        assert [ident for ident, _ in of_key] == [n for n in range(30) if f"k{n % 3}" == key]
        assert len({partition for _, partition in of_key}) == 1


def test_large_events_pass_up_to_the_limit(ingress: IngressProcess) -> None:
    limit = ingress.settings.max_event_bytes
    headers = {**EVENT, "ce-id": uuid.uuid4().hex, "Content-Type": "application/octet-stream", "ce-x": "x" * 30_000}
    assert ingress.post("/shop/orders", headers, bytes(limit))[0] == 202
    assert ingress.post("/shop/orders", headers, bytes(limit + 1))[0] == 413


def test_a_connection_serves_many_requests(ingress: IngressProcess) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", ingress.settings.port, timeout=60)
    statuses = []
    for path in ["/shop/orders", "/nowhere", "/shop/orders", "/shop/orders"]:
        connection.request("POST", path, b"x", {**EVENT, "ce-id": "again", "Content-Type": "text/plain"})
        response = connection.getresponse()
        response.read()
        statuses.append(response.status)
    connection.close()
    assert statuses == [202, 404, 202, 202]


def test_new_targets_are_served_and_acknowledged(ingress: IngressProcess) -> None:
    headers = {**EVENT, "ce-id": "1"}
    assert ingress.post("/shop/late", headers)[0] == 404
    publish(ingress.settings, Target("late-uid", "Broker", "shop", "late", ("/shop/late",)), Version(2, targets=4))
    eventually(lambda: ingress.post("/shop/late", headers)[0] == 202)
    eventually(lambda: acknowledged_versions(ingress.settings)[-1:] == [2])


def test_what_was_accepted_and_rejected_is_counted(ingress: IngressProcess, metrics_folder: Path) -> None:
    def count(metric: str) -> float:
        lines = exposition.render(metrics_folder).decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(metric) and 'name="counted"' in line)

    publish(ingress.settings, Target("c-uid", "Broker", "shop", "counted", ("/shop/counted",)), Version(3, targets=5))
    eventually(lambda: ingress.post("/shop/counted", {**EVENT, "ce-id": "1"})[0] == 202)
    assert ingress.post("/shop/counted", {**EVENT})[0] == 400
    counters = ("penstock_events_accepted_total", "penstock_requests_rejected_total")
    eventually(lambda: [count(counter) for counter in counters] == [1, 1])


def test_an_idle_ingress_answers_within_milliseconds(ingress: IngressProcess) -> None:
    times = []
    for n in range(20):
        began = time.monotonic()
        assert ingress.post("/shop/orders", {**EVENT, "ce-id": str(n)})[0] == 202
        times.append(time.monotonic() - began)
    assert sorted(times)[10] < 1, "generous: this only fails when something waits that should not"
