"""Detects a Kafka client that has lost all brokers for good.

librdkafka drops the brokers that a metadata response does not list. A broker that has just recovered from a pause or a
crash may list none. Then the client has no broker left and does not try again, not even its bootstrap servers
(librdkafka's issue 5301), and reports nothing: only a new client helps. It shows in the client's statistics, which list
the brokers that it knows.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import structlog

log = structlog.get_logger()

LOOK_SECONDS = 5.0
LOOKS = 2
"""Statistics in a row without a broker before the client counts as lost: a single one may be a transition."""

EXIT_CODE = 70


class _Broker(msgspec.Struct):
    source: str


class _Statistics(msgspec.Struct):
    name: str
    brokers: dict[str, _Broker]


_DECODER = msgspec.json.Decoder(_Statistics)


class Watchdog:
    """Whether one client still knows a broker. It works only while the client is polled."""

    def __init__(self, lost: Callable[[str], None] = lambda client: None) -> None:
        self.gone = False
        self._lost = lost
        self._looks = 0

    def of(self, config: Mapping[str, Any], every: float = LOOK_SECONDS) -> dict[str, Any]:
        """The configuration of the client that is watched."""
        return {**config, "statistics.interval.ms": int(every * 1000), "stats_cb": self.look}

    def look(self, statistics: str) -> None:
        """Checks the client's statistics."""
        seen = _DECODER.decode(statistics)
        # A "logical" broker is the coordinator of a group or of transactions, a role of one of the others.
        blind = all(broker.source == "logical" for broker in seen.brokers.values())
        self._looks = self._looks + 1 if blind else 0
        if self._looks >= LOOKS and not self.gone:
            self.gone = True
            self._lost(seen.name)


def ending_process() -> Watchdog:
    """Watches a client that cannot be replaced in place: when it is lost, the process ends and is restarted.

    Nothing that was confirmed depends on an orderly shutdown.
    """
    return Watchdog(_end_process)


def _end_process(client: str) -> None:
    log.error("a Kafka client knows no broker any more; this process ends, to be restarted", client=client)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(EXIT_CODE)
