"""Topics have other names in Kafka than in the code where an installation has a prefix of its own."""

from __future__ import annotations

import re
from pathlib import Path

SOURCE = Path(__file__).parents[3] / "src" / "penstock"
SPEAKS_WITH_KAFKA = re.compile(
    r"""(produce|TopicPartition|list_topics|OffsetSpec)\(\s*topics\.[A-Z]|"(subscribe|assign|topic)",\s*topics\.[A-Z]"""
)
NAMED = re.compile(r"""["']penstock\.(events|matched|routes|cursors|attempts|reports|unreadable)["']""")


def test_kafka_is_asked_for_the_names_that_topics_have_there() -> None:
    found = [
        f"{path.relative_to(SOURCE)}: {hit.group()}"
        for path in sorted(SOURCE.rglob("*.py"))
        for hit in SPEAKS_WITH_KAFKA.finditer(path.read_text())
    ]
    assert found == [], "ask penstock.kafka.clients.topic_name"


def test_names_of_topics_stand_in_one_place() -> None:
    users = {str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py") if NAMED.search(path.read_text())}
    assert users - {"dispatcher/delivery/route_span.py"} == {
        "contract/topics.py"
    }  # an attribute of spans has such a name
