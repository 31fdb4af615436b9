"""Following `penstock.matched`: every record is seen, however many lie there at once."""

from __future__ import annotations

import time

import pytest

from penstock.contract import records, topics
from penstock.kafka.topic_ends import AT_ONCE, KafkaAway, Retained, TopicEnds
from penstock.router.matched_record import MatchedRecord, decode
from tests.integration.router.router_stage import Stage
from tests.waiting import eventually


def _ends(tail: TopicEnds[MatchedRecord]) -> list[Retained] | None:
    try:
        return tail.retained(topics.MATCHED, tail.partitions())
    except KafkaAway:
        return None  # a topic that is so new that it has no leader yet


def test_every_record_is_seen(stage: Stage) -> None:
    tail = TopicEnds(stage.settings, decode)
    try:
        ends = eventually(lambda: _ends(tail), every=0.2)
        count = 3 * AT_ONCE + 7
        for number in range(count):
            marks: dict[str, str | bytes | None] = {records.ORIGIN: str(number).encode(), records.GENERATION: b"1"}
            stage.producer.produce(stage.topic(topics.MATCHED), partition=0, headers=marks)
        stage.producer.flush(60)
        tail.follow(ends)
        time.sleep(1.0)  # let the client read ahead, so that a look finds more than it hands on
        seen: list[int] = []
        deadline = time.monotonic() + 60
        while len(seen) < count and time.monotonic() < deadline:
            seen += [record.origin for record in tail.poll(0.5)]
        assert seen == list(range(count))
    finally:
        tail.close()


def test_another_client_goes_on_after_a_question_without_an_answer(stage: Stage) -> None:
    tail = TopicEnds(stage.settings, decode)

    def write(origin: int) -> None:
        marks: dict[str, str | bytes | None] = {records.ORIGIN: str(origin).encode(), records.GENERATION: b"1"}
        stage.producer.produce(stage.topic(topics.MATCHED), partition=0, headers=marks)
        stage.producer.flush(60)

    def read() -> list[int]:
        return [record.origin for record in tail.poll(0.5)]

    try:
        tail.follow(eventually(lambda: _ends(tail), every=0.2))
        write(1)
        assert eventually(read) == [1]
        unheard = "penstock.unheard-of"
        with pytest.raises(KafkaAway):
            tail.retained(unheard, 1)
        write(2)
        assert eventually(read) == [2]
        assert tail.retained(topics.MATCHED, 1)[0].end > 0
    finally:
        tail.close()
