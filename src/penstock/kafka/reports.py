"""How a component of the data plane reports to the control plane: acknowledged versions, signs of life,
losses, how deliveries go.

And the sign that stops the dispatcher's tasks of one run, which reaches a task wherever Spark put it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

import structlog
from confluent_kafka import KafkaError, KafkaException, Message

from penstock.contract import generations, reports, topics
from penstock.contract.generations import LivePoint, ShutOut
from penstock.contract.reports import Ack, Component, Loss, ReplayProgress, SeenType, Served, Standing
from penstock.kafka import clients
from penstock.kafka.table import TableFollower
from penstock.kafka.watchdog import ending_process
from penstock.observability.logs import describe
from penstock.runtime.tasks import Failed, OwnedThread
from penstock.settings import Settings

log = structlog.get_logger()

FLUSH_SECONDS = 5
LINGER_MS = 5
"""What is told of many routes at once becomes one request: the embedded Kafka writes each to disk."""


class Reporter:
    """Reports of one instance of one component."""

    def __init__(self, settings: Settings, component: Component, instance: str, failed: Failed) -> None:
        self._component, self.instance = component, instance
        self._topic = clients.topic_name(settings, topics.REPORTS)
        self._producer = clients.producer(settings, "reporter", {"linger.ms": LINGER_MS}, ending_process())
        self._version: int | None = None
        self._refused: dict[str, str] = {}
        self._waiting = ""
        self._complained = False
        self._stop = threading.Event()
        self._closed = False
        self._lock = threading.Lock()
        self._thread = OwnedThread(f"reports of {component}", self._beat, failed)
        self._thread.start()

    def ack(self, version: int, refused: Mapping[str, str] | None = None) -> None:
        """This instance acts by `version` from now on, but for routes that it refused."""
        with self._lock:
            self._version, self._refused = version, dict(refused or {})
            self._send_ack(version)

    def waiting(self, reason: str) -> None:
        """A newer version cannot come into force for this reason; empty when that is over."""
        with self._lock:
            if reason != self._waiting:
                self._waiting, self._version = reason, self._version or 0
                self._send_ack(self._version)

    def loss(self, route: str, partition: int, first: int, last: int) -> None:
        """The events from `first` to `last` were gone before the route got them."""
        loss = Loss(route, partition, first, last, time.time())
        self._send(reports.key_of(loss), reports.encode(loss))

    def standing(self, standing: Standing) -> None:
        """How the deliveries of a route go."""
        self._send(reports.key_of(standing), reports.encode(standing))

    def no_standing(self, route: str) -> None:
        """The route is gone."""
        self._send(reports.standing_key(route, self.instance), None)

    def seen_type(self, seen: SeenType) -> None:
        """Events of a type pass a target that wants to know."""
        self._send(reports.key_of(seen), reports.encode(seen))

    def replayed(self, progress: ReplayProgress) -> None:
        """A Replay has got that far."""
        self._send(reports.key_of(progress), reports.encode(progress))

    def forget_replay(self, route: str, partition: int) -> None:
        """The Replay is gone."""
        self._send(reports.replay_key(route, partition), None)

    def shut_out(self, partition: int, generation: int, fence: int) -> None:
        """Records of a generation do not count, because of this fence."""
        self._send(generations.shut_out_key(partition), generations.encode(ShutOut(generation, fence)))

    def close(self) -> None:
        """Ends in order: this instance no longer counts."""
        self._stop.set()
        self._thread.join(FLUSH_SECONDS)
        self._send(reports.key_of(Ack(self._component, self.instance, 0, 0)), None)
        self._closed = True
        self._producer.flush(FLUSH_SECONDS)
        self._producer.close()

    def _beat(self) -> None:
        while not self._stop.wait(reports.HEARTBEAT_SECONDS):
            with self._lock:
                if self._version is not None:
                    self._send_ack(self._version)
            self._producer.poll(0)

    def _send_ack(self, version: int) -> None:
        ack = Ack(self._component, self.instance, version, time.time(), self._refused, self._waiting)
        self._send(reports.key_of(ack), reports.encode(ack))

    def _send(self, key: str, value: bytes | None) -> None:
        """A report that Kafka does not take is no reason to end: acknowledgements are repeated, losses are logged."""
        if self._closed:
            return  # nobody counts this instance any more
        try:
            self._producer.produce(self._topic, key=key, value=value, on_delivery=self._delivered)
        except (BufferError, KafkaException) as error:
            self._complain(key, error)
        self._producer.poll(0)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._complain(str(message.key()), error)
        else:
            self._complained = False

    def _complain(self, key: str, error: object) -> None:
        """Once, until a report has arrived again."""
        if not self._complained:
            self._complained = True
            log.warning("a report could not be written", key=key, error=describe(error))


class ServedReader:
    """Reads once what earlier routers have noted: the routes that they served, and where routing goes on."""

    def __init__(self, settings: Settings, failed: Failed) -> None:
        self.served: dict[str, Served] = {}
        self.points: dict[str, LivePoint] = {}
        """By key: of each router that was not forgotten."""
        self.epoch = 0
        """Of the router before."""
        self.log = ""
        """Kafka's id of the events that routing went by; empty where none was noted."""
        self.fence = 0
        """The highest fence that shut out a generation which no point shut out; 0 where there was none."""
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


class StopSign:
    """Stops the dispatcher's tasks of one run."""

    def __init__(self, settings: Settings, run: str) -> None:
        self._key = stop_key(run)
        self._topic = clients.topic_name(settings, topics.REPORTS)
        self._producer = clients.producer(settings, "stop-sign", {}, watchdog=None)

    def show(self) -> None:
        """Tasks that run end in order."""
        self._write(b"{}")

    def remove(self) -> None:
        """They have ended."""
        self._write(None)

    def _write(self, value: bytes | None) -> None:
        self._producer.produce(self._topic, key=self._key, value=value)
        self._producer.flush(FLUSH_SECONDS)


def stop_key(run: str) -> str:
    """Key of the record that stops the tasks of a run."""
    return f"stop/dispatcher/{run}"
