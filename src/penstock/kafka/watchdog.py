"""Noticing a Kafka client that has lost sight of every broker, for good.

librdkafka forgets the brokers that an answer about the cluster does not name. A broker that has just come back from a
pause, or from the dead, may answer that there is none. Then the client has nobody left to ask and does not try again,
not even its bootstrap servers (librdkafka's issue 5301), and says nothing about it: only another client helps. Its
statistics tell: they list the brokers it knows.
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
"""Statistics in a row without a broker before the client counts as lost: one may be taken in the middle of a change."""

EXIT_CODE = 70


class _Broker(msgspec.Struct):
    source: str


class _Statistics(msgspec.Struct):
    name: str
    brokers: dict[str, _Broker]


_DECODER = msgspec.json.Decoder(_Statistics)


class Watchdog:
    """Whether one client still knows a broker. It learns that where the client is polled, so poll it now and then."""

    def __init__(self, lost: Callable[[str], None] = lambda client: None) -> None:
        self.gone = False
        self._lost = lost
        self._looks = 0

    def of(self, config: Mapping[str, Any], every: float = LOOK_SECONDS) -> dict[str, Any]:
        """The configuration of the client that is watched."""
        return {**config, "statistics.interval.ms": int(every * 1000), "stats_cb": self.look}

    def look(self, statistics: str) -> None:
        """Takes note of the client's statistics."""
        seen = _DECODER.decode(statistics)
        # The coordinator of a group or of transactions is a role that one of the others has.
        blind = all(broker.source == "logical" for broker in seen.brokers.values())
        self._looks = self._looks + 1 if blind else 0
        if self._looks >= LOOKS and not self.gone:
            self.gone = True
            self._lost(seen.name)


def ending_process() -> Watchdog:
    """Watches a client that cannot be replaced where it is: its process ends, to be started again, when it is lost.

    Nothing that was confirmed depends on an end in order.
    """
    return Watchdog(_end_process)


def _end_process(client: str) -> None:
    log.error("a Kafka client knows no broker any more; this process ends, to be started again", client=client)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(EXIT_CODE)
