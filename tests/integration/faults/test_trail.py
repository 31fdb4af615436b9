"""What the topics hold of an event can be told, for the day when one is lost."""

from __future__ import annotations

import pytest

from tests.integration.faults.ground import Ground
from tests.integration.faults.producer import Producer
from tests.waiting import eventually
from tools.chaos.checker import Lost
from tools.chaos.trail import trails

pytestmark = pytest.mark.long


def test_the_trail_of_an_event_leads_through_all_topics(ground: Ground) -> None:
    producer = Producer(ground.url)
    producer.wait_for(50)
    producer.stop()
    ground.settle(producer)
    ident = min(producer.accepted)

    def told() -> dict[str, str]:
        """The last line of each topic: a router that was replaced meanwhile matches the event again."""
        found = trails(ground.stack.settings, [Lost("faults", ident), Lost("faults", "unheard-of")])
        assert found["unheard-of"] == []
        by_topic = {line.split()[0]: line for line in found[ident]}
        assert list(by_topic) == ["penstock.events", "penstock.matched", "penstock.attempts", "penstock.cursors"]
        return by_topic

    by_topic = eventually(told)  # what is known of a delivery is written down a moment after it
    assert "for faults" in by_topic["penstock.matched"]
    attempt = by_topic["penstock.attempts"]
    assert "'route': 'faults', 'stage': 'subscriber', 'attempt': 1, 'result': 'delivered'" in attempt
