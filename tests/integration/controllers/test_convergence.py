"""Random orders of creation and deletion, and restarts, on the real API server and Kafka."""

from __future__ import annotations

import random
import time
from functools import partial
from typing import Any

import msgspec
import pytest
from confluent_kafka import Message, Producer

from penstock.contract import topics
from penstock.contract.routes import VERSION_KEY, Route, decode
from penstock.kube.kinds import BROKER, CHANNEL, IN_MEMORY_CHANNEL, SERVICE, SUBSCRIPTION, TRIGGER, Kind
from penstock.settings import Settings
from tests.integration.controllers.control_plane import Cluster, DataPlaneStandIn, Restartable
from tests.running import kafka_access, read_to_end
from tests.waiting import eventually

SINK = {"uri": "http://127.0.0.1:9/"}
SERVICE_REF = {"apiVersion": "v1", "kind": "Service", "name": "sink"}
CHANNEL_REF = {"apiVersion": "messaging.knative.dev/v1", "kind": "Channel", "name": "c"}

WANTED: list[tuple[Kind, str, dict[str, Any]]] = [
    (BROKER, "b", {"delivery": {"retry": 1, "deadLetterSink": SINK}}),
    (TRIGGER, "t1", {"broker": "b", "subscriber": {"ref": SERVICE_REF}}),
    (TRIGGER, "t2", {"broker": "b", "subscriber": SINK, "delivery": {"retry": 5}}),
    (SERVICE, "sink", {"selector": {"app": "x"}, "ports": [{"port": 80, "targetPort": 8080}]}),
    (CHANNEL, "c", {}),
    (SUBSCRIPTION, "s1", {"channel": CHANNEL_REF, "subscriber": {"ref": SERVICE_REF}}),
    (SUBSCRIPTION, "s2", {"channel": CHANNEL_REF, "reply": SINK}),
]


@pytest.mark.parametrize("seed", [1, 2])
def test_any_order_of_creation_and_deletion_ends_in_the_same_state(
    cluster: Cluster, controllers: Restartable, data_plane: DataPlaneStandIn, seed: int
) -> None:
    namespace = f"order-{seed}"
    cluster.create_namespace(namespace)
    chance = random.Random(seed)
    present: set[tuple[Kind, str]] = set()
    for step in range(30):
        kind, name, spec = chance.choice(WANTED)
        if (kind, name) in present:
            cluster.delete(kind, name, namespace)
            present.remove((kind, name))
        else:
            cluster.create(kind, name, namespace, spec=spec)
            present.add((kind, name))
        if step == 15:
            controllers.stop()
            controllers.start()
        elif chance.random() < 0.3:
            time.sleep(0.1)
    for kind, name, spec in chance.sample(WANTED, len(WANTED)):
        if (kind, name) not in present:
            cluster.create(kind, name, namespace, spec=spec)
    for kind, name, _ in WANTED:
        if kind != SERVICE:
            eventually(partial(cluster.ready, kind, name, namespace))
    eventually(lambda: _published(data_plane, namespace, EXPECTED))
    uids = {obj["metadata"]["uid"] for kind in (BROKER, IN_MEMORY_CHANNEL) for obj in cluster.list(kind, namespace)}
    targets = {t.uid for t in data_plane.snapshot.targets.values() if t.namespace == namespace}
    assert targets == uids


def test_a_restart_publishes_nothing_and_keeps_everything_ready(
    cluster: Cluster, controllers: Restartable, data_plane: DataPlaneStandIn, control_settings: Settings
) -> None:
    cluster.create(BROKER, "lasting")
    cluster.create(TRIGGER, "lasting", spec={"broker": "lasting", "subscriber": SINK})
    eventually(lambda: cluster.ready(TRIGGER, "lasting"))
    controllers.stop()
    before = cluster.get(TRIGGER, "lasting")
    written = read_to_end(control_settings, topics.ROUTES)
    controllers.start()
    uid = cluster.create(BROKER, "afterwards")["metadata"]["uid"]
    eventually(lambda: cluster.ready(BROKER, "afterwards"))
    assert uid in data_plane.snapshot.targets
    known, last = {_key(message) for message in written}, _offset(written[-1])
    since = {_key(message) for message in read_to_end(control_settings, topics.ROUTES) if _offset(message) > last}
    # Sinks that the control plane itself serves have another port now, so that their names lead elsewhere.
    own = {f"name/{name}.knative-eventing.svc.cluster.local" for name in ("job-sink", "request-reply")}
    assert known & since <= {VERSION_KEY} | own, "what was published is published again"
    assert cluster.get(TRIGGER, "lasting") == before


def test_what_is_deleted_while_the_controllers_are_away_goes_when_they_come_back(
    cluster: Cluster, controllers: Restartable, data_plane: DataPlaneStandIn
) -> None:
    cluster.create(BROKER, "fleeting")
    uid = cluster.create(TRIGGER, "fleeting", spec={"broker": "fleeting", "subscriber": SINK})["metadata"]["uid"]
    eventually(lambda: cluster.ready(TRIGGER, "fleeting"))
    controllers.stop()
    cluster.delete(TRIGGER, "fleeting")
    assert uid in data_plane.snapshot.routes
    controllers.start()
    eventually(lambda: uid not in data_plane.snapshot.routes)


def test_a_record_that_cannot_be_read_is_written_anew(
    cluster: Cluster, controllers: Restartable, data_plane: DataPlaneStandIn, control_settings: Settings
) -> None:
    cluster.create(BROKER, "spoilt")
    uid = cluster.create(TRIGGER, "spoilt", spec={"broker": "spoilt", "subscriber": SINK})["metadata"]["uid"]
    eventually(lambda: cluster.ready(TRIGGER, "spoilt"))
    producer = Producer(kafka_access(control_settings))

    def newest() -> tuple[Route, bool]:
        """What the topic says of the route, and whether that can be read by everybody."""
        values = [m.value() for m in read_to_end(control_settings, topics.ROUTES) if m.key() == f"route/{uid}".encode()]
        readable = [value for value in values if value and value.startswith(b"{")]
        found = decode(f"route/{uid}", readable[-1])
        assert isinstance(found, Route)
        return found, readable[-1] is values[-1]

    def spoil(*values: bytes | None) -> None:
        for value in values:
            producer.produce(topics.ROUTES, key=f"route/{uid}", value=value)
        producer.flush(10)

    before, _ = newest()
    spoil(b"\xff")
    eventually(lambda: newest() == (before, True), 60)
    controllers.stop()
    spoil(None, b"\xff")  # as if what was before had been compacted away
    producer.produce(topics.EVENTS, value=b"", partition=0)
    producer.flush(10)
    controllers.start()
    eventually(lambda: newest()[1], 60)
    after, _ = newest()
    assert after.start[0] <= before.start[0]
    assert msgspec.structs.replace(after, start=before.start) == before
    eventually(lambda: cluster.ready(TRIGGER, "spoilt"), 60)


def _key(message: Message[bytes, bytes]) -> str:
    return (message.key() or b"").decode()


def _offset(message: Message[bytes, bytes]) -> int:
    offset = message.offset()
    assert offset is not None
    return offset


def _state(data_plane: DataPlaneStandIn, namespace: str) -> dict[str, Any]:
    found = {}
    for route in data_plane.snapshot.routes.values():
        if route.namespace == namespace:
            dead = route.delivery.dead_letter.url if route.delivery.dead_letter else None
            place = route.subscriber or route.reply
            url = place.url.replace(namespace, "NS") if place else None
            found[f"{route.kind} {route.name}"] = (url, route.delivery.retry, dead)
    return found


def _published(data_plane: DataPlaneStandIn, namespace: str, expected: dict[str, Any]) -> bool:
    found = _state(data_plane, namespace)
    assert found == expected, f"published: {found}"
    return True


EXPECTED = {
    "Trigger t1": ("http://sink.NS.svc.cluster.local", 1, SINK["uri"]),
    "Trigger t2": (SINK["uri"], 5, None),
    "Subscription s1": ("http://sink.NS.svc.cluster.local", 0, None),
    "Subscription s2": (SINK["uri"], 0, None),
}
