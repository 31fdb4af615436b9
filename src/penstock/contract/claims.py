"""The records of `penstock.claims`: which process has a role that only one may have at a time.

| key | value |
|---|---|
| `<role>` | who takes the role, says that it still has it, or gives it back |
| `<role>/<instance>` | a process that stands by is there, and reads the topic |

The topic has one partition, so that all read the same in the same order, and all come to the same verdict: a `take`
counts if it names the record before it. Of two that take the role at the same time the first has it, and the second
named a record that is no longer the last. No clock is asked, and no transaction is needed.

The epoch of a claim is the offset of its `take`. It only ever grows, whoever takes the role, however, and whatever
became of the records before. A `sole` take asks nobody: somewhere else it has been decided who has the role (a Lease,
or the lock of a data folder), and the record only gives it its epoch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec

from penstock.contract.records import read_json
from penstock.contract.routes import Count

ROLES = ("control", "pipeline")
NOTHING = -1
"""Stands for an offset where there is no record, and for the epoch where there is no claim."""


class ClaimRecord(msgspec.Struct, frozen=True):
    """One record about a role."""

    act: Literal["take", "renew", "release", "wait"]
    instance: str
    number: Count = 0
    """Counts what the instance wrote, so that it knows its own records again."""
    epoch: int = NOTHING
    """Of a renewal and a release: the claim that is meant."""
    heard: int = NOTHING
    """Of a take: the offset of the newest record of the role that its writer had read."""
    sole: bool = False
    """Of a take: it counts whatever came before."""


_DECODER = msgspec.json.Decoder(ClaimRecord)


def encode(record: ClaimRecord) -> bytes:
    """The record's value in the topic."""
    return msgspec.json.encode(record)


def decode(value: bytes) -> ClaimRecord:
    """The record behind a value. Raises Unreadable."""
    return read_json(value, _DECODER)


@dataclass
class Ledger:
    """Who has a role, by the records about it that were read so far."""

    holder: str | None = None
    epoch: int = NOTHING
    last: int = NOTHING
    """The offset of the newest record."""

    def apply(self, offset: int, record: ClaimRecord) -> bool:
        """Takes the next record; whether it counts.

        Where the topic no longer holds the beginning, the first record read may be a take that cannot be judged. It
        does not count, but its writer may have the role; if so it renews, and a renewal of a newer claim is believed.
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
