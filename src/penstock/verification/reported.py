"""What the data plane has reported of routes: which it serves, which version it acts by, what it lost. Pure."""

from __future__ import annotations

from collections.abc import Collection

from penstock.contract import reports
from penstock.contract.reports import Ack, Loss, Served
from penstock.contract.unreadable import Unreadable
from penstock.kafka.ranges import LogRecord

EVERYWHERE = 2**62
"""An offset above all others."""


class Reported:
    """What `penstock.reports` holds."""

    def __init__(self) -> None:
        self.losses: list[Loss] = []
        self._served: dict[str, Served] = {}
        self._acks: list[tuple[int, int]] = []
        """Version and time, where the router's version rose."""

    def take(self, records: Collection[LogRecord]) -> None:
        """Takes records in the order of the topic."""
        for record in records:
            key = (record.key or b"").decode("utf-8", "replace")
            kind, _, uid = key.partition("/")
            if kind == "served":
                self._served.pop(uid, None)
            try:
                report = None if record.value is None else reports.decode(key, record.value)
            except Unreadable:
                continue
            match report:
                case Served():
                    self._served[report.route] = report
                case Loss():
                    self.losses.append(report)
                case Ack("router") if not self._acks or report.version > self._acks[-1][0]:
                    self._acks.append((report.version, record.at_ms))

    def served_before(self, uid: str, partition: int) -> int:
        """The router serves the route before this offset of the partition; 0: not at all."""
        served = self._served.get(uid)
        if served is None:
            return 0
        if served.owed is None:
            return EVERYWHERE
        return served.owed[partition] if partition < len(served.owed) else 0

    def acknowledged_ms(self, version: int | None) -> int | None:
        """Since when the router certainly acts by a version, Unix milliseconds; None: it does not, or never said so."""
        if version is None:
            return None
        return next((at_ms for found, at_ms in self._acks if found >= version), None)
