"""Aborts hanging transactions: open transactions that Kafka itself has forgotten.

Kafka records open transactions in the topic `__transaction_state`, so that the next producer with the same
transactional id, or a timeout, ends them. If that record is lost (the topic is not flushed at once, or was deleted) but
records of the transaction are not, the transaction stays open for ever. Consumers with `read_committed` never get past
it: changes of routes would not take effect and cursors would be outdated.

Only the Java client can abort such a transaction, so the pipeline does it through Spark's JVM.
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
"""Topics, and whether they have as many partitions as `penstock.events`, or one."""
REQUEST_SECONDS = 10.0
ENDING_STATES = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"})
"""States of transactions that Kafka will end itself."""

log = structlog.get_logger()


def abort_hanging(session: SparkSession, settings: Settings) -> int:
    """Aborts hanging transactions and returns their number. Errors are logged, not raised."""
    try:
        suspects = list(_open_transactions(TopicAdmin(settings), settings))
        return _end(session, settings, suspects) if suspects else 0
    except (NotDone, Py4JError) as error:
        log.error(
            "cannot check for hanging transactions; if changes of routes do not take effect, abort such transactions "
            "with Kafka's kafka-transactions.sh (find-hanging, abort)",
            error=str(error).splitlines()[0],
        )
        return 0


def _open_transactions(admin: TopicAdmin, settings: Settings) -> Iterator[tuple[str, int]]:
    """Partitions with a transaction that is open, hanging or not."""
    for topic, per_partition in WRITTEN_IN_TRANSACTIONS.items():
        partitions = list(range(settings.partitions if per_partition else 1))
        ends = admin.ends(topic, partitions, REQUEST_SECONDS)
        committed = admin.ends(topic, partitions, REQUEST_SECONDS, committed=True)
        yield from ((topic, number) for number in partitions if committed[number] < ends[number])


def _end(session: SparkSession, settings: Settings, suspects: list[tuple[str, int]]) -> int:
    jvm: Any = session._jvm
    kafka = jvm.org.apache.kafka
    properties = jvm.java.util.Properties()
    for name, value in (java_options(settings) | {"bootstrap.servers": settings.bootstrap}).items():
        properties.setProperty(name, value)
    suspicious = jvm.java.util.ArrayList()
    for topic, number in suspects:
        suspicious.add(kafka.common.TopicPartition(topic_name(settings, topic), number))
    admin = kafka.clients.admin.Admin.create(properties)
    try:
        before = dict(_producers(admin, suspicious))
        known = {
            one.producerId() for one in admin.listTransactions().all().get() if one.state().toString() in ENDING_STATES
        }
        # Open before Kafka was asked for the transactions it knows and still open afterwards: it was open at that time.
        hanging = [(key, one) for key, one in _producers(admin, suspicious) if key in before and key[2] not in known]
        for (topic, number, producer, start), state in hanging:
            specification = kafka.clients.admin.AbortTransactionSpec(
                kafka.common.TopicPartition(topic, number),
                producer,
                state.producerEpoch(),
                state.coordinatorEpoch().orElse(0),
            )
            admin.abortTransaction(specification).all().get()
            log.warning(
                "aborted a hanging transaction, which Kafka had forgotten, perhaps in a power loss; its records are "
                "written again",
                topic=topic,
                partition=number,
                offset=start,
            )
        return len(hanging)
    finally:
        admin.close()


def _producers(admin: Any, suspicious: Any) -> Iterator[tuple[tuple[str, int, int, int], Any]]:
    """Topic, partition, producer id and first offset of each open transaction, with Kafka's state of the producer."""
    for entry in admin.describeProducers(suspicious).all().get().entrySet():
        key = entry.getKey()
        for state in entry.getValue().activeProducers():
            start = state.currentTransactionStartOffset()
            if start.isPresent():
                yield (key.topic(), key.partition(), state.producerId(), start.getAsLong()), state
