"""Reading from Kafka how far an installation has got: its routes, who takes events, and what is under way."""

from __future__ import annotations

import threading
import time

from penstock.contract import reports, topics
from penstock.contract.reports import Ack, Component
from penstock.contract.routes import Route
from penstock.dispatcher.cursors.cursor_store import Restored, understand
from penstock.engine.topics.sizing import PartitionStanding
from penstock.kafka.table import SnapshotFollower, TableFollower
from penstock.kafka.topic_ends import KafkaAway, TopicEnds
from penstock.kafka.transactions import load_partition
from penstock.router.matched_record import MatchedRecord, decode
from penstock.runtime.errors import UserError
from penstock.settings import Settings

READ_SECONDS = 60.0
LISTEN_SECONDS = 1.5 * reports.HEARTBEAT_SECONDS


def routes(settings: Settings) -> dict[str, Route]:
    """What is published, by uid."""
    failures: list[BaseException] = []
    follower = SnapshotFollower(settings, lambda snapshot: None, failures.append)
    follower.start()
    read = follower.caught_up.wait(READ_SECONDS)
    follower.stop()
    _check(read, failures)
    return dict(follower.snapshot.routes)


def instances(settings: Settings, *components: Component) -> list[str]:
    """Instances of these components that are at work: those that are heard of while this listens. No clock is asked,
    since those of machines differ."""
    heard: dict[str, Ack] = {}
    end, failures = threading.Event(), list[BaseException]()

    def apply(key: str, value: bytes | None) -> None:
        heard.pop(key, None)
        if value is not None and end.is_set() and key.startswith(tuple(f"ack/{name}/" for name in components)):
            report = reports.decode(key, value)
            if isinstance(report, Ack):
                heard[key] = report

    follower = TableFollower(settings, topics.REPORTS, apply, end.set, failures.append)
    follower.start()
    read = end.wait(READ_SECONDS)
    if read:
        time.sleep(LISTEN_SECONDS)
    follower.stop()
    _check(read, failures)
    return sorted(ack.instance for ack in heard.values())


def standings(settings: Settings, partitions: int) -> list[PartitionStanding]:
    """How far each partition has got."""
    ends: TopicEnds[MatchedRecord] = TopicEnds(settings, decode)
    try:
        return [_standing(settings, ends, partition) for partition in range(partitions)]
    except KafkaAway as error:
        raise UserError(f"Kafka at {settings.bootstrap} is unreachable: {error}.") from None
    finally:
        ends.close()


def _standing(settings: Settings, ends: TopicEnds[MatchedRecord], partition: int) -> PartitionStanding:
    events = ends.retained(topics.EVENTS, partition + 1)[partition]
    matched = ends.retained(topics.MATCHED, partition + 1)[partition]
    newest = ends.newest(partition)
    written = load_partition(settings, "standing", topics.CURSORS, partition, threading.Event())
    known = understand({key: stored.value for key, stored in written.items()}, partition, set())
    return PartitionStanding(
        stored=events.end,
        routed=events.first if newest is None else newest.origin + 1,
        matched=matched.end,
        taken=matched.first if known.tail is None else known.tail.next,
        waiting=_waiting(known),
    )


def _waiting(known: Restored) -> dict[str, int]:
    """What each route was given and has not settled; one that reads behind the tail has at least one event to get."""
    return {
        uid: len(cursor.outstanding) + (0 if cursor.attached else max(1, cursor.behind))
        for uid, cursor in known.cursors.items()
    }


def _check(read: bool, failures: list[BaseException]) -> None:
    if failures:
        raise failures[0]
    if not read:
        raise UserError(f"A topic could not be read within {READ_SECONDS:g} s.", "Check the setting kafka.")
