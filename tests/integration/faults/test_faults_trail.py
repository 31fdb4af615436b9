"""What the topics hold of an event can be told, for the day when one is lost."""

from __future__ import annotations

import time

from ground import Ground
from producer import Producer

from chaos.checker import Lost
from chaos.trail import trails


def test_the_trail_of_an_event_leads_through_all_topics(ground: Ground) -> None:
    producer = Producer(ground.url)
    time.sleep(1)
    producer.stop()
    ground.settle(producer)
    ident = min(producer.accepted)
    told = trails(ground.stack.settings.bootstrap, [Lost("faults", ident), Lost("faults", "unheard-of")])
    assert told["unheard-of"] == []
    by_topic = {line.split()[0]: line for line in told[ident]}  # a router that was replaced meanwhile matches it again
    assert list(by_topic) == ["penstock.events", "penstock.matched", "penstock.attempts", "penstock.cursors"]
    assert "for faults" in by_topic["penstock.matched"]
    attempt = by_topic["penstock.attempts"]
    assert "'route': 'faults', 'stage': 'subscriber', 'attempt': 1, 'result': 'delivered'" in attempt
