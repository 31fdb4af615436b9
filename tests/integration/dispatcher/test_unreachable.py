"""Subscribers that nobody answers for, on real sockets: every event has its attempts, and coming back is noticed."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

from penstock.contract.routes import Delivery, Endpoint, Route
from tests.integration.dispatcher.dispatcher_stage import Stage, Subscribe, Subscriber
from tests.running import held_ports
from tests.waiting import until


async def test_every_event_has_its_attempts_and_reaches_the_dead_letter_sink(
    stage: Stage, subscribe: Subscribe
) -> None:
    sink = await subscribe()
    [closed] = held_ports(1)
    policy = Delivery(retry=2, backoff_policy="linear", backoff_delay=0.05, dead_letter=sink.endpoint)
    route = stage.trigger(Endpoint(f"http://127.0.0.1:{closed}/"), delivery=policy)
    stage.publish(route)
    async with stage.task(max_outstanding=100):
        ids = stage.match(route, count=400) + stage.match(route, count=400, partition=1)
        await until(lambda: len(sink.requests) >= len(ids), "all of them at the dead letter sink", 120)
        await asyncio.sleep(0.3)
    assert sorted(sink.ids) == sorted(ids)
    made = Counter((fact["partition"], fact["origin"], fact["stage"]) for fact in stage.attempts(route))
    assert Counter((stage_name, count) for (_, _, stage_name), count in made.items()) == {
        ("subscriber", 3): len(ids),
        ("deadletter", 1): len(ids),
    }


async def test_a_subscriber_that_comes_back_gets_everything_at_once(stage: Stage, subscribe: Subscribe) -> None:
    [closed] = held_ports(1)
    late = Subscriber(port=closed)
    other = await subscribe()
    policy = Delivery(retry=10_000, backoff_policy="linear", backoff_delay=0.0001)
    route, well = stage.trigger(late.endpoint, delivery=policy), stage.trigger(other.endpoint)
    stage.publish(route, well)
    async with stage.task():
        ids = stage.match(route, well, count=3000) + stage.match(route, well, count=3000, partition=1)
        await until(lambda: len(other.requests) == len(ids), "everything at the one that is there", 120)
        await until(lambda: failures(stage, route), "attempts at the one that is not there")
        server = await late.serve()
        back = time.monotonic()
        await until(lambda: len(late.requests) >= len(ids), "everything at the one that came back", 120)
        took = time.monotonic() - back
        server.close()
    assert sorted(late.ids) == sorted(ids)
    failed = failures(stage, route)
    print(f"{failed} attempts while it was away, {len(ids)} events within {took:.2f} s when it was back")
    assert failed > 0


def failures(stage: Stage, route: Route) -> int:
    """How many attempts of a route had no answer."""
    return sum("status" not in fact for fact in stage.attempts(route))
