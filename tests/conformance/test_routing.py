"""Which Triggers and Subscriptions get an event, how often, and what becomes of replies."""

from __future__ import annotations

import time

import pytest

from tests.conformance.world import QUIET_SECONDS, World, binary, reply

SCENE = """
kind: Broker
metadata: {name: hub}
---
kind: Trigger
metadata: {name: everything}
spec: {broker: hub, subscriber: {uri: "{sinks}/everything"}}
---
kind: Trigger
metadata: {name: typed}
spec: {broker: hub, filter: {attributes: {type: red, colour: deep}}, subscriber: {uri: "{sinks}/typed"}}
---
kind: Trigger
metadata: {name: present}
spec: {broker: hub, filter: {attributes: {colour: ""}}, subscriber: {uri: "{sinks}/present"}}
---
kind: Trigger
metadata: {name: twin-one}
spec: {broker: hub, filter: {attributes: {type: twin}}, subscriber: {uri: "{sinks}/twins"}}
---
kind: Trigger
metadata: {name: twin-two}
spec: {broker: hub, filter: {attributes: {type: twin}}, subscriber: {uri: "{sinks}/twins"}}
---
kind: Broker
metadata: {name: loop}
---
kind: Trigger
metadata: {name: asker}
spec: {broker: loop, subscriber: {uri: "{sinks}/asker"}}
---
kind: Trigger
metadata: {name: answers}
spec: {broker: loop, filter: {attributes: {type: answer}}, subscriber: {uri: "{sinks}/answers"}}
---
kind: Channel
metadata: {name: line}
---
kind: Subscription
metadata: {name: twin-one}
spec:
  channel: {apiVersion: messaging.knative.dev/v1, kind: Channel, name: line}
  subscriber: {uri: "{sinks}/subscribed"}
---
kind: Subscription
metadata: {name: twin-two}
spec:
  channel: {apiVersion: messaging.knative.dev/v1, kind: Channel, name: line}
  subscriber: {uri: "{sinks}/subscribed"}
"""


@pytest.fixture(scope="module", autouse=True)
def scene(world: World) -> None:
    for name in ("everything", "typed", "present", "twins", "answers", "subscribed"):
        world.sinks.open(name)
    world.sinks.open("asker", reply("answer"))
    world.all_ready(world.make(SCENE))


@pytest.mark.assertion("br-trigger-07", "br-trigger-08", "et-filter-01", "et-filter-02", "et-filter-03", "et-filter-04")
@pytest.mark.assertion("et-filter-05", "cp-routing-06", "et-routing-06")
@pytest.mark.parametrize(
    ("ident", "attributes", "typed", "present"),
    [
        ("f-1", {"event_type": "red", "colour": "deep"}, 1, 1),
        ("f-2", {"event_type": "red"}, 0, 0),
        ("f-3", {"event_type": "Red", "colour": "deep"}, 0, 1),
        ("f-4", {"event_type": "red", "colour": "Deep"}, 0, 1),
        ("f-5", {"event_type": "reddish", "colour": "deep"}, 0, 1),
    ],
)
def test_filters_compare_every_attribute_exactly(
    world: World, ident: str, attributes: dict[str, str], typed: int, present: int
) -> None:
    everything = world.sinks["everything"]
    world.send("Broker", "hub", binary(ident, **attributes))
    everything.exactly(ident, 1, quiet=0.3)
    world.sinks["typed"].exactly(ident, typed, quiet=0)
    world.sinks["present"].exactly(ident, present, quiet=0)


@pytest.mark.assertion(
    "cp-routing-04", "cp-routing-07", "cp-routing-08", "et-routing-04", "et-routing-07", "et-routing-08"
)
def test_every_matching_trigger_delivers_once(world: World) -> None:
    world.send("Broker", "hub", binary("twin-1", "twin"))
    world.sinks["twins"].exactly("twin-1", 2)
    world.sinks["everything"].exactly("twin-1", 1, quiet=0)
    assert world.sinks["typed"].got("twin-1") == []


@pytest.mark.assertion("cp-topology-06", "et-topology-06")
def test_every_subscription_delivers_once(world: World) -> None:
    world.send("Channel", "line", binary("twin-2"))
    world.sinks["subscribed"].exactly("twin-2", 2)


@pytest.mark.assertion("cp-routing-09", "et-routing-09", "cp-topology-07", "et-topology-07")
@pytest.mark.parametrize(("kind", "name", "sink"), [("Broker", "hub", "everything"), ("Channel", "line", "subscribed")])
@pytest.mark.parametrize("data", [b"\x00\xff\x80 binary", b'{"b":  1.0, "a":[ ]}', b"", "gr\u00fcn \u2603".encode()])
def test_the_data_is_not_changed(world: World, kind: str, name: str, sink: str, data: bytes) -> None:
    ident = f"data-{kind}-{len(data)}"
    headers = binary(ident) | {"content-type": "application/octet-stream"}
    world.send(kind, name, headers, data)
    for got in world.sinks[sink].wait(ident):
        assert got.body == data
        assert got.headers.get("content-type", "application/octet-stream") == "application/octet-stream"


@pytest.mark.assertion("cp-routing-10", "cp-routing-13", "et-routing-10", "et-routing-11", "br-delivery-05")
def test_replies_enter_the_broker_and_reach_all_triggers(world: World) -> None:
    world.send("Broker", "loop", binary("question", "question"))
    answers = world.sinks["answers"].wait("reply-1")
    assert answers[0].attribute("type") == "answer"
    # The Trigger whose subscriber replied sees its own reply too, and replies again, until the TTL ends the loop.
    asker = world.sinks["asker"]
    assert asker.wait("reply-1")[0].attribute("source") == "/replier"
    time.sleep(QUIET_SECONDS)
    world.delete("Trigger", "asker")
