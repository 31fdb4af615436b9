"""Kafka is asked seldom, and by another client after it did not answer."""

from __future__ import annotations

from penstock.kafka.admin import FRESH_SECONDS, KafkaProbe, NotDone
from penstock.settings import Settings


class Admin:
    """Stands for a connection; `away` is what the cluster is like at the moment."""

    away = False

    def __init__(self, _: Settings) -> None:
        CONNECTED.append(self)
        self.asked = 0

    def brokers(self, _: float) -> int:
        self.asked += 1
        if Admin.away:
            raise NotDone("timed out")
        return 1


CONNECTED: list[Admin] = []


def test_answers_are_kept_for_a_while_and_a_client_without_answer_is_replaced() -> None:
    now = [0.0]
    CONNECTED.clear()
    probe = KafkaProbe(Settings(kafka="k:1"), lambda: now[0], Admin)  # type: ignore[arg-type]
    assert [probe.problem() for _ in range(3)] == [None] * 3
    assert [one.asked for one in CONNECTED] == [1]
    Admin.away = True
    now[0] += FRESH_SECONDS
    assert probe.problem() == "Kafka at k:1 does not respond (timed out)"
    Admin.away = False
    now[0] += FRESH_SECONDS
    assert probe.problem() is None
    assert [one.asked for one in CONNECTED] == [2, 1]
