"""The records of `penstock.claims`: which process has a role that only one may have at a time.

| key | value |
|---|---|
| `<role>` | a process takes the role, renews its claim, or releases it |
| `<role>/<instance>` | a process is standing by and reads the topic |

The topic has one partition, so that all processes read the same records in the same order and reach the same result: a
`take` counts if it names the record before it. Of two that take the role at the same time the first has it, and the
second named a record that is no longer the last. This needs neither clocks nor transactions.

The epoch of a claim is the offset of its `take`. It always grows, even if earlier records are gone. A `sole` take
always counts: something else has decided who has the role (a Lease, or the lock of a data folder), and the record only
gives it its epoch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec

from penstock.contract.records import read_json
from penstock.contract.routes import Count

ROLES = ("control", "pipeline")
NOTHING = -1
"""The offset where there is no record, and the epoch where there is no claim."""


class ClaimRecord(msgspec.Struct, frozen=True):
    """One record about a role."""

    act: Literal["take", "renew", "release", "wait"]
    instance: str
    number: Count = 0
    """Counts what the instance wrote, so that it recognises its own records."""
    epoch: int = NOTHING
    """Of a renewal and a release: the claim that is meant."""
    heard: int = NOTHING
    """Of a take: the offset of the newest record of the role that its writer had read."""
    sole: bool = False
    """Of a take: it always counts."""


_DECODER = msgspec.json.Decoder(ClaimRecord)


def encode(record: ClaimRecord) -> bytes:
    """The record's value in the topic."""
    return msgspec.json.encode(record)


def decode(value: bytes) -> ClaimRecord:
    """The record of a value. Raises Unreadable."""
    return read_json(value, _DECODER)


@dataclass
class RoleClaims:
    """Who has a role, by the records about it that were read so far."""

    holder: str | None = None
    epoch: int = NOTHING
    last: int = NOTHING
    """The offset of the newest record."""

    def apply(self, offset: int, record: ClaimRecord) -> bool:
        """Applies the next record; returns whether it counts.

        Where the topic no longer holds the beginning, the first record read may be a take that cannot be verified. It
        does not count, but its writer may have the role; if so it renews, and a renewal of a newer claim is accepted.
        """
        counts, first = self._counts(record), self.last == NOTHING
        self.last = offset
        if first and not counts and record.act == "take":
            self.holder = record.instance
        elif counts and record.act == "take":
            self.holder, self.epoch = record.instance, offset
        elif counts and record.act == "renew":
            self.holder, self.epoch = record.instance, record.epoch
        elif counts:
            self.holder = None
        return counts

    def _counts(self, record: ClaimRecord) -> bool:
        match record.act:
            case "take":
                return record.sole or record.heard == self.last
            case "renew":
                same = record.epoch == self.epoch and record.instance == self.holder
                return same or record.epoch > self.epoch
            case "release":
                return record.epoch == self.epoch and self.holder is not None
            case "wait":
                return False
