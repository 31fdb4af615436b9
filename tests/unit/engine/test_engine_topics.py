"""Sizes of topics: what is retained fits the disk that the settings grant, in segments that Kafka accepts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.contract.topics import EVENTS, TOPICS
from penstock.engine import topic_setup as topics
from penstock.settings import Settings

_EVENTS = next(topic for topic in TOPICS if topic.name == EVENTS)
_RETAINED = [topic for topic in TOPICS if topic.cleanup == "delete"]


@given(partitions=st.integers(1, 64), mib=st.integers(1024, 1_000_000))
def test_retained_topics_fit_what_the_settings_grant(partitions: int, mib: int) -> None:
    settings = Settings(partitions=partitions, retention_mib=mib)
    for topic in _RETAINED:
        config = topics.config_of(topic, settings, replication=1)
        segment, kept = int(config["segment.bytes"]), int(config["retention.bytes"])
        largest = int(config["max.message.bytes"])
        assert segment >= largest
        assert kept >= segment
        granted = mib * topics.MIB * topic.share / topics.partitions_of(topic, settings)
        assert segment + kept <= max(granted, 2 * largest)


def test_the_default_sizes_add_up_to_the_setting() -> None:
    settings = Settings()
    total = 0
    for topic in _RETAINED:
        config = topics.config_of(topic, settings, replication=1)
        total += topics.partitions_of(topic, settings) * (int(config["segment.bytes"]) + int(config["retention.bytes"]))
    assert total <= settings.retention_mib * topics.MIB


def test_events_are_flushed_on_the_embedded_kafka_only() -> None:
    assert topics.config_of(_EVENTS, Settings(), 1)["flush.messages"] == "1"
    assert "flush.messages" not in topics.config_of(_EVENTS, Settings(kafka="k:9092"), 3)


def test_three_replicas_need_two_in_sync() -> None:
    assert topics.config_of(_EVENTS, Settings(kafka="k:9092"), 3)["min.insync.replicas"] == "2"
    assert "min.insync.replicas" not in topics.config_of(_EVENTS, Settings(), 1)


def test_replication_follows_the_cluster_unless_set() -> None:
    assert topics.replication_of(Settings(), brokers=1) == 1
    assert topics.replication_of(Settings(kafka="k:9092"), brokers=2) == 2
    assert topics.replication_of(Settings(kafka="k:9092"), brokers=9) == 3
    assert topics.replication_of(Settings(kafka="k:9092", replication=5), brokers=9) == 5
