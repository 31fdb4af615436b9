"""One process that claims a role: what it makes of the records it reads, and what it writes. Time is handed in."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from penstock.contract.claims import ClaimRecord, Ledger
from penstock.kafka.claims import rules
from penstock.kafka.claims.rules import ClaimHolder, Standby

TAKE_AGAIN_SECONDS = 3.0
"""A take that has not come back by then is written again."""


@dataclass(frozen=True)
class Write:
    """A record to write."""

    key: str
    record: ClaimRecord


class Claimant:
    """Stands by, has the role, or has lost it."""

    def __init__(self, role: str, instance: str, at: float) -> None:
        self.ledger = Ledger()
        self._role, self._instance = role, instance
        self._standby = Standby(instance, at)
        self._holder: ClaimHolder | None = None
        self._behind = True
        self._number = secrets.randbits(40)  # no other process of the same name counts from there
        self._sent: dict[int, float] = {}
        """When what has not come back yet was written."""
        self._next_word = self._next_take = float("-inf")

    @property
    def epoch(self) -> int | None:
        """The epoch of its claim; None while it does not have the role."""
        return None if self._holder is None else self._holder.epoch

    @property
    def waiting_key(self) -> str:
        """The key under which it says that it stands by."""
        return f"{self._role}/{self._instance}"

    def caught_up(self, at: float) -> None:
        """The end of the topic was reached for the first time: what is read from now on was written just now."""
        if self._behind:
            self._behind = False
            self._standby = Standby(self._instance, at)

    def read(self, key: str, offset: int, record: ClaimRecord, at: float) -> None:
        """Takes in the next record of the topic."""
        sent = self._sent.pop(record.number, None) if record.instance == self._instance else None
        if sent is not None:
            self._standby.came_back(sent, at)
        if key != self._role:
            return
        counts = self.ledger.apply(offset, record)
        if counts and record.act != "release":
            self._standby.holder_spoke(at)
        if sent is None:
            return
        if not counts:
            self._next_take = at  # another came first: look again
        elif record.act == "take":
            self._holder = ClaimHolder(offset, sent)
        elif self._holder is not None:
            self._holder.confirmed(sent)

    def why_lost(self, at: float) -> str | None:
        """Why it must end at once; None where it has the role, or never had it."""
        return None if self._holder is None else self._holder.why_lost(self.ledger, at)

    def turn(self, at: float) -> Iterator[Write]:
        """What to write now. Nothing before everything was read that lay there."""
        if self._behind:
            return
        if self._holder is None and at >= self._next_take and self._standby.may_take(self.ledger, at):
            self._next_take = at + TAKE_AGAIN_SECONDS
            yield self._write(self._role, ClaimRecord("take", self._instance, heard=self.ledger.last), at)
        if at >= self._next_word:
            self._next_word = at + rules.RENEW_SECONDS
            if self._holder is None:
                yield self._write(self.waiting_key, ClaimRecord("wait", self._instance), at)
            else:
                yield self._write(self._role, ClaimRecord("renew", self._instance, epoch=self._holder.epoch), at)

    def goodbye(self, at: float) -> Iterator[Write]:
        """What to write at the end, when nothing of the role's work goes on any more."""
        if self._holder is not None:
            yield self._write(self._role, ClaimRecord("release", self._instance, epoch=self._holder.epoch), at)

    def _write(self, key: str, record: ClaimRecord, at: float) -> Write:
        self._number += 1
        self._sent = {number: sent for number, sent in self._sent.items() if at - sent < 2 * rules.TAKE_SECONDS}
        self._sent[self._number] = at
        return Write(key, msgspec.structs.replace(record, number=self._number))
