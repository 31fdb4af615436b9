"""Metrics and traces of the data plane."""

from __future__ import annotations

import re

import pytest

from tests.conformance.world import Answer, World, binary, reply, request
from tests.waiting import eventually

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture(scope="module", autouse=True)
def scene(world: World) -> None:
    world.sinks.open("observed")
    made = world.make(
        """
kind: Broker
metadata: {name: hub}
---
kind: Trigger
metadata: {name: all}
spec: {broker: hub, subscriber: {uri: "{sinks}/observed"}}
"""
    )
    world.all_ready(made)


def metrics(world: World) -> str:
    return request(f"http://127.0.0.1:{world.stack.settings.metrics_port}/metrics", "GET").body.decode()


@pytest.mark.assertion("br-observability-01", "br-observability-02")
def test_requests_and_deliveries_are_counted_by_default(world: World) -> None:
    world.send("Broker", "hub", binary("counted"))
    world.sinks["observed"].wait("counted")
    assert request(world.address("Broker", "hub"), "POST", {"content-type": "text/plain"}, b"x").status == 400

    def counted() -> bool:
        lines = [line for line in metrics(world).splitlines() if world.namespace in line and not line.startswith("#")]
        seen = "\n".join(lines)
        assert 'status="202"' in seen or 'code="202"' in seen or 'code_class="2xx"' in seen, seen
        assert 'status="400"' in seen or 'code="400"' in seen or 'code_class="4xx"' in seen, seen
        assert any('trigger="all"' in line or 'name="all"' in line or 'route="all"' in line for line in lines), seen
        return True

    assert eventually(counted)


@pytest.mark.assertion("br-observability-03", "br-observability-04")
def test_the_trace_of_the_producer_is_kept_and_continued(world: World) -> None:
    along = {"traceparent": PARENT, "tracestate": "a=b"}
    world.send("Broker", "hub", binary("traced", traceparent=PARENT) | along)
    got = world.sinks["observed"].wait("traced")[0]
    assert got.attribute("traceparent") == PARENT
    version, trace, span, flags = got.headers["traceparent"].split("-")
    assert [version, trace, flags] == ["00", PARENT.split("-")[1], "01"]
    assert span != PARENT.split("-")[2]
    assert got.headers["tracestate"] == "a=b"


@pytest.mark.assertion("br-observability-03")
def test_an_event_without_trace_context_begins_a_trace_of_its_own(world: World) -> None:
    world.sinks.open("replying", reply("answer"))
    world.sinks.open("refusing", Answer(400))
    world.sinks.open("answered")
    world.sinks.open("buried")
    made = world.make(
        """
kind: Trigger
metadata: {name: replying}
spec: {broker: hub, filter: {attributes: {type: question}}, subscriber: {uri: "{sinks}/replying"}}
---
kind: Trigger
metadata: {name: refusing}
spec:
  broker: hub
  filter: {attributes: {type: question}}
  subscriber: {uri: "{sinks}/refusing"}
  delivery: {deadLetterSink: {uri: "{sinks}/buried"}}
---
kind: Trigger
metadata: {name: answered}
spec: {broker: hub, filter: {attributes: {type: answer}}, subscriber: {uri: "{sinks}/answered"}}
"""
    )
    world.all_ready(made)
    world.send("Broker", "hub", binary("untraced", "question"))
    where = [("replying", "untraced"), ("refusing", "untraced"), ("buried", "untraced"), ("answered", "reply-1")]
    parents = [world.sinks[name].wait(ident)[0].headers["traceparent"] for name, ident in where]
    assert [re.fullmatch(r"00-[0-9a-f]{32}-[0-9a-f]{16}-00", parent) is None for parent in parents] == [False] * 4
    assert (len({parent[3:35] for parent in parents}), len({parent[36:52] for parent in parents})) == (1, 4)
