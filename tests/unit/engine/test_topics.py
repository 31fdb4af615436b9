"""Sizes of topics: what is retained fits the disk that the settings grant, in segments that Kafka accepts."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.contract.routes import Replay, Route, Target, Version, key_of
from penstock.contract.topics import CLAIMS, EVENTS, REPORTS, ROUTES, TOPICS
from penstock.engine.topics import adoption, installation_state, topic_setup
from penstock.engine.topics.adoption import without_starts
from penstock.engine.topics.sizing import too_few, wanted_replication
from penstock.engine.topics.topic_admin import differences
from penstock.kafka.admin import Brokers, FoundTopic, TopicShape
from penstock.kafka.routes import StoredRoutes
from penstock.runtime.errors import UserError
from penstock.settings import Settings

_EVENTS = next(topic for topic in TOPICS if topic.name == EVENTS)
_RETAINED = [topic for topic in TOPICS if topic.cleanup == "delete"]


@given(partitions=st.integers(1, 64), mib=st.integers(1024, 1_000_000))
def test_retained_topics_fit_what_the_settings_grant(partitions: int, mib: int) -> None:
    settings = Settings(partitions=partitions, retention_mib=mib)
    for topic in _RETAINED:
        config = topic_setup.config_of(topic, settings, replication=1)
        segment, kept = int(config["segment.bytes"]), int(config["retention.bytes"])
        largest = int(config["max.message.bytes"])
        assert segment >= largest
        assert kept >= segment
        granted = mib * topic_setup.MIB * topic.share / topic_setup.partitions_of(topic, settings)
        assert segment + kept <= max(granted, 2 * largest)


def test_the_default_sizes_add_up_to_the_setting() -> None:
    settings = Settings()
    total = 0
    for topic in _RETAINED:
        config = topic_setup.config_of(topic, settings, replication=1)
        total += topic_setup.partitions_of(topic, settings) * (
            int(config["segment.bytes"]) + int(config["retention.bytes"])
        )
    assert total <= settings.retention_mib * topic_setup.MIB


def test_events_are_flushed_on_the_embedded_kafka_only() -> None:
    assert topic_setup.config_of(_EVENTS, Settings(), 1)["flush.messages"] == "1"
    assert "flush.messages" not in topic_setup.config_of(_EVENTS, Settings(kafka="k:9092"), 3)


def test_adopting_another_log_lets_routes_begin_with_its_oldest_event_and_changes_nothing_else() -> None:
    target = Target("t", "Broker", "n", "b")
    late = Route("late", "Trigger", "n", "late", "t", start=(5_000,), attributes={"type": "a"})
    replay = Route("again", "Replay", "n", "again", "t", start=(7,), replay=Replay("Trigger"))
    changes, version = without_starts(StoredRoutes({key_of(one): one for one in (target, late, replay)}, version=7))
    assert changes == {"route/late": msgspec.structs.replace(late, start=())}
    assert version == Version(8, targets=1, routes=2)


def test_what_is_made_again_for_an_adopted_log_has_as_many_partitions_as_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Admin:
        """A Kafka in which the log has one partition, where the settings say four."""

        def topics(self) -> dict[str, FoundTopic]:
            return {EVENTS: FoundTopic(1, 1)}

        def delete(self, names: list[str]) -> None:
            pass

    made = []
    monkeypatch.setattr(topic_setup, "connect", lambda settings: Admin())
    monkeypatch.setattr(
        topic_setup, "create_missing", lambda admin, settings, existing: made.append(settings.partitions)
    )
    monkeypatch.setattr(installation_state, "instances", lambda *asked: [])
    monkeypatch.setattr(adoption, "_begin_anew", lambda settings: 0)
    monkeypatch.setattr(adoption, "_await_gone", lambda admin, name: None)
    adoption.adopt(Settings(kafka="k:9092", partitions=4))
    assert made == [1, 1]


def test_so_are_the_notes_of_routers_and_who_has_a_role() -> None:
    """A route that was left out is owed its events, and only a note says so."""
    flushed = {topic.name for topic in TOPICS if "flush.messages" in topic_setup.config_of(topic, Settings(), 1)}
    assert flushed == {EVENTS, ROUTES, REPORTS, CLAIMS}


def test_three_replicas_need_two_in_sync() -> None:
    assert topic_setup.config_of(_EVENTS, Settings(kafka="k:9092"), 3)["min.insync.replicas"] == "2"
    assert "min.insync.replicas" not in topic_setup.config_of(_EVENTS, Settings(), 1)


THREE = frozenset({1, 2, 3})
GIVEN = Settings(kafka="k:9092")


@pytest.mark.parametrize(
    ("settings", "brokers", "replicas"),
    [
        (Settings(), Brokers(frozenset({1})), 1),
        (GIVEN, Brokers(frozenset({1})), 1),
        (GIVEN, Brokers(frozenset({1, 2})), 2),
        (GIVEN, Brokers(frozenset(range(9))), 3),
        (GIVEN, Brokers(frozenset({1, 2}), named=THREE), 3),
        (GIVEN, Brokers(frozenset({1}), most_replicas=3), 3),
        (GIVEN, Brokers(frozenset({1, 2}), configured_replicas=3), 3),
        (GIVEN, Brokers(frozenset({1}), configured_replicas=1), 1),
        (Settings(kafka="k:9092", replication=5), Brokers(frozenset(range(9))), 5),
        (Settings(kafka="k:9092", replication=1), Brokers(THREE), 1),
    ],
)
def test_replicas_follow_all_brokers_that_are_known(settings: Settings, brokers: Brokers, replicas: int) -> None:
    assert wanted_replication(settings, brokers).replicas == replicas


def test_no_topic_is_made_while_brokers_are_away() -> None:
    away = Brokers(frozenset({1, 2}), named=THREE)
    assert too_few(wanted_replication(GIVEN, Brokers(THREE)), Brokers(THREE)) is None
    assert too_few(wanted_replication(GIVEN, away), away) == (
        "Topics need 3 replicas, because this Kafka has 3 brokers, but only 2 brokers are reachable."
    )
    alone = Brokers(frozenset({1}), configured_replicas=3)
    assert "offsets.topic.replication.factor" in (too_few(wanted_replication(GIVEN, alone), alone) or "")


def found_as(shapes: list[TopicShape]) -> tuple[dict[str, FoundTopic], dict[str, dict[str, str]]]:
    return (
        {shape.name: FoundTopic(shape.partitions, shape.replication) for shape in shapes},
        {shape.name: {**shape.config, "unclean.leader.election.enable": "false"} for shape in shapes},
    )


def test_topics_as_they_should_be_show_no_difference() -> None:
    shapes = topic_setup.shapes(GIVEN, 3)
    assert differences(shapes, *found_as(shapes)) == []


def test_every_difference_says_what_to_do() -> None:
    shapes = topic_setup.shapes(GIVEN, 3)
    found, configs = found_as(shapes)
    del found["penstock.routes"]
    found["penstock.events"] = FoundTopic(2, 1)
    configs["penstock.events"]["retention.ms"] = "1"
    configs["penstock.cursors"]["cleanup.policy"] = "delete"
    told = {(one.topic, one.what): one for one in differences(shapes, found, configs)}
    assert {what: one.remedy.partition(" with")[0] for what, one in told.items()} == {
        ("penstock.routes", "topic"): "penstock topics --create",
        ("penstock.events", "partitions"): "penstock topics --partitions 4",
        ("penstock.events", "replication"): "move it",
        ("penstock.events", "retention.ms"): "penstock topics --configure",
        ("penstock.cursors", "cleanup.policy"): "penstock topics --configure",
    }
    assert [one.what for one in told.values() if one.harmful] == ["cleanup.policy"]


def test_security_is_for_a_given_kafka() -> None:
    conf = {"security.protocol": "ssl"}
    topic_setup.check_security(Settings(kafka="k:9092", kafka_conf=conf))
    topic_setup.check_security(Settings(kafka_conf={"client.rack": "a"}))
    with pytest.raises(UserError, match="the embedded Kafka has its own"):
        topic_setup.check_security(Settings(kafka_conf=conf))
