"""The scenarios: which routes there are, and what load runs against them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Route = dict[str, Any]
Routes = Callable[[str], list[Route]]


@dataclass(frozen=True)
class Scenario:
    """One row of the table."""

    name: str
    what: str
    routes: Routes
    load: dict[str, Any] = field(default_factory=dict)
    figure: str = "delivered_per_second"
    """What is compared with upstream and shown in the chart."""
    peer: bool = False
    runs: int = 3
    channel: bool = False


def one_of(count: int) -> Routes:
    """`count` Triggers by type, of which only the first matches what is sent."""

    def routes(subscriber: str) -> list[Route]:
        return [
            {
                "name": f"t{i}",
                "attributes": {"type": "bench" if i == 0 else f"other.{i}"},
                "subscriber": subscriber + "0",
            }
            for i in range(count)
        ]

    return routes


def on_data(count: int) -> Routes:
    """`count` Triggers that ask for something in the data, of which only the first matches what is sent."""

    def routes(subscriber: str) -> list[Route]:
        return [
            {
                "name": f"t{i}",
                "filters": [{"data": {"order.country": "bench" if i == 0 else f"other.{i}"}}],
                "subscriber": subscriber + "0",
            }
            for i in range(count)
        ]

    return routes


def all_of(count: int) -> Routes:
    """`count` Triggers that all match, each with its own subscriber."""
    return lambda subscriber: [
        {"name": f"t{i}", "attributes": {"type": "bench"}, "subscriber": f"{subscriber}{i}"} for i in range(count)
    ]


def dialects(subscriber: str) -> list[Route]:
    """Every filter dialect, nested and CESQL included; four of twelve match."""
    filters: list[list[dict[str, Any]]] = [
        [{"exact": {"type": "bench"}}],
        [{"prefix": {"type": "ben"}}, {"suffix": {"source": "gen"}}],
        [{"any": [{"exact": {"type": "x"}}, {"not": {"exact": {"source": "x"}}}]}],
        [{"cesql": "type LIKE 'be%' AND LENGTH(source) > 3 AND EXISTS id"}],
        [{"exact": {"type": "other"}}],
        [{"prefix": {"type": "other"}}],
        [{"suffix": {"type": "other"}}],
        [{"all": [{"prefix": {"type": "b"}}, {"exact": {"source": "nowhere"}}]}],
        [{"not": {"prefix": {"type": "be"}}}],
        [{"cesql": "type = 'other' OR source IN ('a', 'b')"}],
        [{"cesql": "INT(id) < 0"}],
        [{"cesql": "missing = 1"}],
    ]
    return [{"name": f"t{i}", "filters": f, "subscriber": f"{subscriber}{i}"} for i, f in enumerate(filters)]


def none(subscriber: str) -> list[Route]:
    """A Broker without Triggers."""
    return []


BRIEF = {"warmup": "3s", "duration": "6s"}

LONG = {"warmup": "3s", "duration": "20s"}
"""For the figure that is compared most: the speed of a virtual machine varies within tens of seconds."""

FIXED = {"warmup": "0s", "duration": "120s", "settle": "120s", "count": 5000}
"""A fixed number of events, then until the last delivery: an ingress that accepts faster than ten subscribers can be
served would only pile up a backlog."""

SCENARIOS = [
    Scenario("triggers-1", "1 Trigger, 64 connections", one_of(1), {**LONG}, peer=True),
    Scenario("triggers-10", "10 Triggers, one matches", one_of(10), {**BRIEF}, peer=True),
    Scenario("triggers-100", "100 Triggers, one matches", one_of(100), {**BRIEF}, peer=True),
    Scenario("fanout-10", "fan-out to 10 of 10", all_of(10), {**FIXED, "subscribers": 10, "fanout": 10}, peer=True),
    Scenario(
        "dialects", "all filter dialects and CESQL, 4 of 12 match", dialects, {**FIXED, "subscribers": 12, "fanout": 4}
    ),
    Scenario("payload-256", "256 B events", one_of(1), {**BRIEF, "payload": 256}, runs=1, peer=True),
    Scenario("payload-64k", "64 KiB events", one_of(1), {**BRIEF, "payload": 65536}, runs=1, peer=True),
    Scenario(
        "payload-512k", "512 KiB events", one_of(1), {**BRIEF, "payload": 524288, "connections": 8}, runs=1, peer=True
    ),
    Scenario(
        "batch-100",
        "batch ingest of 100, no Trigger",
        none,
        {**BRIEF, "batch": 100, "connections": 8, "fanout": 0},
        figure="accepted_per_second",
    ),
    Scenario(
        "paced-100", "100 events/s", one_of(1), {**BRIEF, "rate": 100}, figure="send_to_receive.p50_ms", peer=True
    ),
    Scenario(
        "paced-1000", "1,000 events/s", one_of(1), {**BRIEF, "rate": 1000}, figure="send_to_receive.p50_ms", peer=True
    ),
    Scenario(
        "channel-10",
        "Channel with 10 Subscriptions",
        all_of(10),
        {**FIXED, "subscribers": 10, "fanout": 10},
        channel=True,
    ),
    Scenario("data-1", "1 Trigger that asks for data, events of 20 fields", on_data(1), {**BRIEF, "fields": 20}),
    Scenario(
        "data-1000",
        "1,000 Triggers that ask for data, one matches, events of 20 fields",
        on_data(1000),
        {**BRIEF, "fields": 20},
    ),
    Scenario("triggers-1000", "1,000 Triggers, one matches", one_of(1000), {**BRIEF}, peer=False),
    Scenario("triggers-10000", "10,000 Triggers, one matches", one_of(10_000), {**BRIEF}),
]
