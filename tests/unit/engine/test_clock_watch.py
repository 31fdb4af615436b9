"""A clock that is set: what is noticed, and that the embedded Kafka then removes nothing for its age."""

from __future__ import annotations

import asyncio
import contextlib
from types import SimpleNamespace

import pytest

from penstock.contract.topics import TOPICS
from penstock.engine import clock_watch
from penstock.engine.clock_watch import ClockWatch, back_notice, forward_notice
from penstock.engine.topics import topic_setup
from penstock.kafka.admin import FoundTopic, NotDone
from penstock.settings import Settings

DAY = 86_400.0


def test_only_large_jumps_count_whatever_time_passes_between_looks() -> None:
    watch = ClockWatch(1_700_000_000.0, 50.0)
    assert watch.jump(1_700_000_000.0 + 9 * DAY, 50.0 + 9 * DAY) == 0, "the machine slept"
    assert watch.jump(1_700_000_000.0 + 9 * DAY + 90, 50.0 + 9 * DAY) == 0
    assert watch.jump(1_700_000_000.0 + 18 * DAY + 90, 50.0 + 9 * DAY) == 9 * DAY
    assert watch.jump(1_700_000_000.0 + 9 * DAY, 50.0 + 9 * DAY) == -9 * DAY - 90


def test_what_is_said_names_what_was_found_what_was_done_and_the_command() -> None:
    assert forward_notice(9 * DAY + 7200, Settings()) == (
        "the clock of this machine was set forward by 9 days, 2:00:00. New events now look older than retention_hours "
        "(168), so events are no longer removed by age, only by size (retention_mib). When the clock is right: "
        "penstock topics --configure"
    )
    assert back_notice(-7200.0).startswith("the clock of this machine was set back by 2:00:00. Nothing is removed;")


class Kafka:
    """The topics of an embedded Kafka."""

    def __init__(self) -> None:
        self.configs = {topic.name: topic_setup.config_of(topic, Settings(), 1) for topic in TOPICS}
        self.away = 0

    def topics(self) -> dict[str, FoundTopic]:
        if self.away:
            self.away -= 1
            raise NotDone("it starts")
        return {topic.name: FoundTopic(topic_setup.partitions_of(topic, Settings()), 1) for topic in TOPICS}

    def describe(self, names: list[str]) -> dict[str, dict[str, str]]:
        return {name: dict(self.configs[name]) for name in names}

    def configure(self, changes: dict[str, dict[str, str]]) -> None:
        for name, config in changes.items():
            self.configs[name] |= config

    def kept(self) -> set[str]:
        return {name for name, config in self.configs.items() if config.get("retention.ms") == "-1"}


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> Kafka:
    made = Kafka()

    class Admin:
        def __init__(self, _: Settings) -> None:
            self.topics, self.configs, self.configure = made.topics, made.describe, made.configure

    monkeypatch.setattr(topic_setup, "TopicAdmin", Admin)
    monkeypatch.setattr(topic_setup, "connect", Admin)
    return made


async def test_events_are_kept_from_a_jump_on_also_where_kafka_is_away_at_that_moment(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.away = 2
    walls = iter([1_000.0, 1_000.0 + 9 * DAY])
    monkeypatch.setattr(clock_watch, "elapsed", lambda: 0.0)
    monkeypatch.setattr(clock_watch, "time", SimpleNamespace(time=lambda: next(walls, 1_000.0 + 9 * DAY)))
    said = asyncio.Queue[str]()
    watching = asyncio.create_task(clock_watch.watch(Settings(), said.put_nowait, every=0.001))
    assert "was set forward by 9 days" in await asyncio.wait_for(said.get(), 10)
    assert kafka.kept() == {topic.name for topic in TOPICS if topic.cleanup == "delete"}
    watching.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await watching
    assert said.empty()


def test_they_are_kept_over_starts_until_a_person_gives_topics_their_limits(kafka: Kafka) -> None:
    topic_setup.hold_events(Settings())
    before = kafka.configs["penstock.events"]["retention.bytes"]
    topic_setup.ensure(Settings(retention_mib=4096))
    assert kafka.kept() == {topic.name for topic in TOPICS if topic.cleanup == "delete"}
    assert kafka.configs["penstock.events"]["retention.bytes"] != before
