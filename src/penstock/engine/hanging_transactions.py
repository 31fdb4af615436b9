"""Ending transactions that nothing else ends.

Kafka notes in its topic `__transaction_state` which transaction of which producer is open, so that the next producer
with the same name, or a limit of time, ends it. Where that note is lost (the topic is not written to disk at once, or
was deleted) and records of the transaction are not, it stays open for ever. Who reads committed records only never gets
past it: changes of routes would not come into force, and cursors be those of before.

Only Java's client can end such a transaction, so the pipeline does, which has one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import structlog
from py4j.protocol import Py4JError  # type: ignore[import-untyped]

from penstock.contract.topics import ATTEMPTS, CURSORS, REPORTS, ROUTES
from penstock.kafka.admin import NotDone, TopicAdmin
from penstock.kafka.clients import java_options, topic_name
from penstock.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WRITTEN_IN_TRANSACTIONS = {ROUTES: False, REPORTS: False, CURSORS: True, ATTEMPTS: True}
"""Topics, and whether they have as many partitions as the events, or one."""
ASK_SECONDS = 10.0
UNDER_WAY = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"})
"""States of a transaction that Kafka itself will end."""

log = structlog.get_logger()


def end_hanging(session: SparkSession, settings: Settings) -> int:
    """Ends the transactions that Kafka has forgotten; how many. What cannot be done is logged: nothing fails by it."""
    try:
        suspects = list(_open_transactions(TopicAdmin(settings), settings))
        return _end(session, settings, suspects) if suspects else 0
    except (NotDone, Py4JError) as error:
        log.error(
            "transactions that Kafka may have forgotten cannot be looked at or ended; where changes of routes do not "
            "come into force, end them with Kafka's kafka-transactions.sh (find-hanging, abort)",
            error=str(error).splitlines()[0],
        )
        return 0


def _open_transactions(admin: TopicAdmin, settings: Settings) -> Iterator[tuple[str, int]]:
    """Partitions with a transaction under way, or one that hangs."""
    for topic, per_partition in WRITTEN_IN_TRANSACTIONS.items():
        partitions = list(range(settings.partitions if per_partition else 1))
        ends = admin.ends(topic, partitions, ASK_SECONDS)
        committed = admin.ends(topic, partitions, ASK_SECONDS, committed=True)
        yield from ((topic, number) for number in partitions if committed[number] < ends[number])


def _end(session: SparkSession, settings: Settings, suspects: list[tuple[str, int]]) -> int:
    jvm: Any = session._jvm
    kafka = jvm.org.apache.kafka
    properties = jvm.java.util.Properties()
    for name, value in (java_options(settings) | {"bootstrap.servers": settings.bootstrap}).items():
        properties.setProperty(name, value)
    places = jvm.java.util.ArrayList()
    for topic, number in suspects:
        places.add(kafka.common.TopicPartition(topic_name(settings, topic), number))
    admin = kafka.clients.admin.Admin.create(properties)
    try:
        before = dict(_producers(admin, places))
        known = {
            one.producerId() for one in admin.listTransactions().all().get() if one.state().toString() in UNDER_WAY
        }
        # One that was begun before Kafka was asked which it knows, and is open still after that, was open then.
        hanging = [
            (place, one) for place, one in _producers(admin, places) if place in before and place[2] not in known
        ]
        for (topic, number, producer, start), state in hanging:
            specification = kafka.clients.admin.AbortTransactionSpec(
                kafka.common.TopicPartition(topic, number),
                producer,
                state.producerEpoch(),
                state.coordinatorEpoch().orElse(0),
            )
            admin.abortTransaction(specification).all().get()
            log.warning(
                "ended a transaction that Kafka had forgotten, perhaps in a power loss: what it had written does not "
                "count, and is written again",
                topic=topic,
                partition=number,
                offset=start,
            )
        return len(hanging)
    finally:
        admin.close()


def _producers(admin: Any, places: Any) -> Iterator[tuple[tuple[str, int, int, int], Any]]:
    """Topic, partition, producer and first offset of each transaction that is open, and what Kafka says of its
    producer."""
    for entry in admin.describeProducers(places).all().get().entrySet():
        place = entry.getKey()
        for state in entry.getValue().activeProducers():
            start = state.currentTransactionStartOffset()
            if start.isPresent():
                yield (place.topic(), place.partition(), state.producerId(), start.getAsLong()), state
