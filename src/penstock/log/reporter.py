"""How a component of the data plane reports to the control plane: acknowledged versions, signs of life, losses."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

from confluent_kafka import Producer

from penstock.contract import reports, topics
from penstock.contract.reports import Ack, Component, Loss
from penstock.log.watchdog import watched


class Reporter:
    """Reports of one instance of one component."""

    def __init__(self, bootstrap: str, component: Component, instance: str) -> None:
        self._component, self._instance = component, instance
        self._producer = Producer(watched({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0}))
        self._version: int | None = None
        self._refused: dict[str, str] = {}
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._beat, name=f"reports of {component}", daemon=True)
        self._thread.start()

    def ack(self, version: int, refused: Mapping[str, str] | None = None) -> None:
        """This instance acts by `version` from now on, but for routes that it refused."""
        with self._lock:
            self._version, self._refused = version, dict(refused or {})
            self._send_ack(version)

    def loss(self, route: str, partition: int, first: int, last: int) -> None:
        """The events from `first` to `last` were gone before the route got them."""
        loss = Loss(route, partition, first, last, time.time())
        self._producer.produce(topics.REPORTS, key=reports.key_of(loss), value=reports.encode(loss))
        self._producer.poll(0)

    def close(self) -> None:
        """Ends in order: this instance no longer counts."""
        self._stop.set()
        self._thread.join(timeout=5)
        key = reports.key_of(Ack(self._component, self._instance, 0, 0))
        self._producer.produce(topics.REPORTS, key=key, value=None)
        self._producer.flush(5)

    def _beat(self) -> None:
        while not self._stop.wait(reports.HEARTBEAT_SECONDS):
            with self._lock:
                if self._version is not None:
                    self._send_ack(self._version)
            self._producer.poll(0)

    def _send_ack(self, version: int) -> None:
        ack = Ack(self._component, self._instance, version, time.time(), self._refused)
        self._producer.produce(topics.REPORTS, key=reports.key_of(ack), value=reports.encode(ack))
        self._producer.poll(0)
