"""What a dispatcher task on another machine reports to the pipeline that started it: metrics, and lines of its log.

It is a record under `task/<instance>` in `penstock.reports`, which a task reaches wherever Spark runs it. Each record
holds the changes since the one before; the pipeline reads them all, from before the task starts. If one is lost, only
the metrics are incomplete.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import msgspec
from confluent_kafka import KafkaException

from penstock.contract import topics
from penstock.contract.records import Unreadable
from penstock.kafka import clients
from penstock.kafka.watchdog import ending_process
from penstock.observability.instruments import write_metrics
from penstock.observability.remote_metrics import MetricChange, Outbox
from penstock.runtime.tasks import Failed, OwnedThread
from penstock.settings import Settings

KIND = "task"
REPORT_SECONDS = 5.0
CHANGES = 2000
"""Maximum of changes in one record: some hundred kilobytes."""
FLUSH_SECONDS = 5


class TaskReport(msgspec.Struct, frozen=True):
    """One report of one task."""

    run: str
    """The run of the pipeline that the task belongs to."""
    instance: str
    host: str
    changes: tuple[MetricChange, ...] = ()
    gone: tuple[tuple[str, str, str], ...] = ()
    """Kind, namespace and name of objects whose metrics are to be removed."""
    lines: tuple[str, ...] = ()
    """Warnings and errors, each a JSON object."""


_DECODER = msgspec.msgpack.Decoder(TaskReport)


def key_of(instance: str) -> str:
    """The key of a task's reports."""
    return f"{KIND}/{instance}"


def decode(value: bytes) -> TaskReport:
    """The report of a record. Raises Unreadable."""
    try:
        return _DECODER.decode(value)
    except (msgspec.MsgspecError, ValueError) as error:
        raise Unreadable(f"{type(error).__name__}: {error}") from error


def reports_of(run: str, instance: str, outbox: Outbox) -> Iterator[TaskReport]:
    """The changes since the last call, in pieces that fit into records."""
    changes, gone, lines = outbox.take()
    host = socket.gethostname()
    if gone or lines:
        yield TaskReport(run, instance, host, (), tuple(gone), tuple(lines))
    for begin in range(0, len(changes), CHANGES):
        yield TaskReport(run, instance, host, tuple(changes[begin : begin + CHANGES]))


class TaskReporter:
    """Reports of one task, every few seconds and when it ends."""

    def __init__(self, settings: Settings, run: str, instance: str, outbox: Outbox, failed: Failed) -> None:
        self._run, self._instance, self._outbox = run, instance, outbox
        self._topic = clients.topic_name(settings, topics.REPORTS)
        options = {"linger.ms": 0, "compression.type": "lz4"}
        self._producer = clients.producer(settings, "task-reports", options, ending_process())
        self._producer.produce(self._topic, key=key_of(instance), value=None)  # removes the report of an earlier run
        self._stop = threading.Event()
        self._thread = OwnedThread("reports of a task", self._report, failed)
        self._thread.start()

    def close(self) -> None:
        """Sends what is left."""
        self._stop.set()
        self._thread.join(FLUSH_SECONDS)
        self._send()
        self._producer.produce(self._topic, key=key_of(self._instance), value=None)
        self._producer.flush(FLUSH_SECONDS)

    def _report(self) -> None:
        while not self._stop.wait(REPORT_SECONDS):
            self._send()

    def _send(self) -> None:
        """A report that Kafka does not take is missing from the metrics, and not fatal."""
        write_metrics()
        for report in reports_of(self._run, self._instance, self._outbox):
            try:
                value = msgspec.msgpack.encode(report)
                self._producer.produce(self._topic, key=key_of(self._instance), value=value)
            except (BufferError, KafkaException):
                break
        self._producer.poll(0)
