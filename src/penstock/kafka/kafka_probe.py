"""Whether Kafka answers, asked when somebody wants to know: for `/readyz` of roles that see Kafka seldom themselves."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from penstock.kafka.admin import NotDone, TopicAdmin
from penstock.settings import Settings

ANSWER_SECONDS = 2.0
FRESH_SECONDS = 2.0
"""An answer is good for so long: probes come from several sides, and must not become load."""


class KafkaProbe:
    """Asks Kafka for its brokers, at most every two seconds. Any thread may ask."""

    def __init__(
        self,
        settings: Settings,
        clock: Callable[[], float] = time.monotonic,
        connect: Callable[[Settings], TopicAdmin] = TopicAdmin,
    ) -> None:
        self._settings, self._clock, self._connect = settings, clock, connect
        self._lock = threading.Lock()
        self._admin: TopicAdmin | None = None
        self._asked = float("-inf")
        self._problem: str | None = None

    def problem(self) -> str | None:
        """Why Kafka is not there; None where it is."""
        with self._lock:
            if self._clock() - self._asked >= FRESH_SECONDS:
                self._problem = self._ask()
                self._asked = self._clock()
            return self._problem

    def _ask(self) -> str | None:
        # A client that got no answer may have lost sight of every broker for good: the next question has another.
        admin, self._admin = self._admin or self._connect(self._settings), None
        try:
            admin.brokers(ANSWER_SECONDS)
        except NotDone as error:
            return f"Kafka at {self._settings.bootstrap} does not answer ({error})"
        self._admin = admin
        return None
