"""Metrics and traces of the data plane."""

from __future__ import annotations

import pytest
from world import World, binary, request

from running import eventually

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
    world.send("Broker", "hub", binary("traced", traceparent=PARENT) | {"traceparent": PARENT})
    got = world.sinks["observed"].wait("traced")[0]
    assert got.attribute("traceparent") == PARENT
    version, trace, span, _ = got.headers["traceparent"].split("-")
    assert (version, trace) == ("00", PARENT.split("-")[1])
    assert span != PARENT.split("-")[2]
