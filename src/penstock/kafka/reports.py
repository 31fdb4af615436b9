"""Reports of the data plane to the control plane, in `penstock.reports`: acknowledged versions, heartbeats, losses,
and the state of deliveries.

Also the record that stops the dispatcher's tasks of one run, which reaches a task wherever Spark runs it.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Mapping

import structlog
from confluent_kafka import KafkaError, KafkaException, Message

from penstock.contract import generations, reports, topics
from penstock.contract.generations import LivePoint, ShutOut
from penstock.contract.records import Unreadable
from penstock.contract.reports import Ack, Component, Loss, ReplayProgress, SeenType, Served, Standing
from penstock.kafka import clients
from penstock.kafka.ranges import RangeReader
from penstock.kafka.table import TableFollower
from penstock.kafka.watchdog import ending_process
from penstock.observability.logs import describe
from penstock.runtime.tasks import Failed, OwnedThread
from penstock.settings import Settings

log = structlog.get_logger()

FLUSH_SECONDS = 5
LINGER_MS = 5
"""Reports on many routes become one request: the embedded Kafka writes each request to disk."""


class Reporter:
    """Reports of one instance of one component."""

    def __init__(self, settings: Settings, component: Component, instance: str, failed: Failed) -> None:
        self._component, self.instance = component, instance
        self._topic = clients.topic_name(settings, topics.REPORTS)
        self._producer = clients.producer(settings, "reporter", {"linger.ms": LINGER_MS}, ending_process())
        self._version: int | None = None
        self._refused: dict[str, str] = {}
        self._waiting = ""
        self._has_warned = False
        self._stop = threading.Event()
        self._closed = False
        self._lock = threading.Lock()
        self._thread = OwnedThread(f"reports of {component}", self._heartbeat, failed)
        self._thread.start()

    def ack(self, version: int, refused: Mapping[str, str] | None = None) -> None:
        """This instance uses `version` from now on, except for routes that it refused."""
        with self._lock:
            self._version, self._refused = version, dict(refused or {})
            self._send_ack(version)

    def waiting(self, reason: str) -> None:
        """A newer version cannot come into force, with the reason; empty when that is over."""
        with self._lock:
            if reason != self._waiting:
                self._waiting, self._version = reason, self._version or 0
                self._send_ack(self._version)

    def loss(self, route: str, partition: int, first: int, last: int) -> None:
        """The events from `first` to `last` were removed before the route got them."""
        loss = Loss(route, partition, first, last, time.time())
        self._send(reports.key_of(loss), reports.encode(loss))

    def standing(self, standing: Standing) -> None:
        """The health of a route's deliveries."""
        self._send(reports.key_of(standing), reports.encode(standing))

    def no_standing(self, route: str) -> None:
        """The route is gone."""
        self._send(reports.standing_key(route, self.instance), None)

    def seen_type(self, seen: SeenType) -> None:
        """A target that records event types has received events of a type."""
        self._send(reports.key_of(seen), reports.encode(seen))

    def replayed(self, progress: ReplayProgress) -> None:
        """The progress of a Replay."""
        self._send(reports.key_of(progress), reports.encode(progress))

    def forget_replay(self, route: str, partition: int) -> None:
        """The Replay is gone."""
        self._send(reports.replay_key(route, partition), None)

    def shut_out(self, partition: int, generation: int, fence: int) -> None:
        """Records of a generation are ignored because of this fence."""
        self._send(generations.shut_out_key(partition), generations.encode(ShutOut(generation, fence)))

    def close(self) -> None:
        """Shuts down: this instance no longer counts as alive."""
        self._stop.set()
        self._thread.join(FLUSH_SECONDS)
        self._send(reports.key_of(Ack(self._component, self.instance, 0, 0)), None)
        self._closed = True
        self._producer.flush(FLUSH_SECONDS)
        self._producer.close()

    def _heartbeat(self) -> None:
        while not self._stop.wait(reports.HEARTBEAT_SECONDS):
            with self._lock:
                if self._version is not None:
                    self._send_ack(self._version)
            self._producer.poll(0)

    def _send_ack(self, version: int) -> None:
        ack = Ack(self._component, self.instance, version, time.time(), self._refused, self._waiting)
        self._send(reports.key_of(ack), reports.encode(ack))

    def _send(self, key: str, value: bytes | None) -> None:
        """A report that Kafka does not take is not fatal: acknowledgements are repeated, losses are logged."""
        if self._closed:
            return  # this instance no longer counts as alive
        try:
            self._producer.produce(self._topic, key=key, value=value, on_delivery=self._delivered)
        except (BufferError, KafkaException) as error:
            self._warn(key, error)
        self._producer.poll(0)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._warn(str(message.key()), error)
        else:
            self._has_warned = False

    def _warn(self, key: str, error: object) -> None:
        """Warns once, until a report was written again."""
        if not self._has_warned:
            self._has_warned = True
            log.warning("a report could not be written", key=key, error=describe(error))


class ServedReader:
    """Reads once what earlier routers have recorded: the routes that they served, and where routing resumes."""

    def __init__(self, settings: Settings, failed: Failed) -> None:
        self.served: dict[str, Served] = {}
        self.points: dict[str, LivePoint] = {}
        """By key, the points of routers that were not removed."""
        self.epoch = 0
        """Of the router before."""
        self.log = ""
        """Kafka's id of the topic of events that was routed; empty where none was recorded."""
        self.fence = 0
        """The highest reported fence of a generation that no point shut out; 0 where there was none."""
        self.read = threading.Event()
        self._follower = TableFollower(settings, topics.REPORTS, self._apply, self.read.set, failed)

    def start(self) -> None:
        """Begins to read."""
        self._follower.start()

    def stop(self) -> None:
        """Ends reading."""
        self._follower.stop()

    def _apply(self, key: str, value: bytes | None) -> None:
        kind, _, uid = key.partition("/")
        if kind == generations.KIND:
            self.points.pop(key, None)
            if value is not None:
                self.points[key] = generations.decode(value)
        if key == generations.EPOCH_KEY and value is not None:
            self.epoch = generations.decode_epoch(value)
        if key == generations.LOG_KEY and value is not None:
            self.log = generations.decode_log(value)
        if kind == generations.SHUT_OUT and value is not None:
            self.fence = max(self.fence, generations.decode_shut_out(value).fence)
        if kind != "served":
            return
        self.served.pop(uid, None)
        report = None if value is None else reports.decode(key, value)
        if isinstance(report, Served):
            self.served[uid] = report


def read_live_generation(settings: Settings) -> int:
    """The number of the generation from which routing resumes; 0 where none was ever recorded. Blocks. Raises
    KafkaAway."""
    reader, points = RangeReader(settings), dict[bytes, LivePoint]()
    try:
        kept = reader.retained(topics.REPORTS)[0]
        for found in reader.read(topics.REPORTS, {0: kept.first}, {0: kept.end}):
            for record in found:
                if record.key is None or not record.key.startswith(_POINT):
                    continue
                points.pop(record.key, None)
                if record.value is not None:
                    with contextlib.suppress(Unreadable):
                        points[record.key] = generations.decode(record.value)
    finally:
        reader.close()
    point = generations.newest(points.values())
    return 0 if point is None else point.number


_POINT = f"{generations.KIND}/".encode()


class StopRecord:
    """The record that stops the dispatcher's tasks of one run."""

    def __init__(self, settings: Settings, run: str) -> None:
        self._key = stop_key(run)
        self._topic = clients.topic_name(settings, topics.REPORTS)
        self._producer = clients.producer(settings, "stop-sign", {}, watchdog=None)

    def write(self) -> None:
        """Makes running tasks shut down."""
        self._produce(b"{}")

    def remove(self) -> None:
        """Removes the record once they have ended."""
        self._produce(None)

    def _produce(self, value: bytes | None) -> None:
        self._producer.produce(self._topic, key=self._key, value=value)
        self._producer.flush(FLUSH_SECONDS)


def stop_key(run: str) -> str:
    """Key of the record that stops the tasks of a run."""
    return f"stop/dispatcher/{run}"
