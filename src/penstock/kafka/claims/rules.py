"""When a role may be taken from one that is silent, and when one that is not heard must stop. Pure: time is handed in.

    holder    renews ----- renews --x (frozen, cut off)          stops acting
                             |------------- 12 s ------------------|
    standby         hears it |----------------- 13.5 s --------------| takes the role

Both measure on their own clock, from the same record: the holder from the moment before it wrote it, the standby from
the moment after it read it. So the holder stops first, however far apart the clocks are; only their pace must be the
same within a tenth. The clock is the one that also runs while a machine sleeps.

A Kafka that is away for all is no silence of the holder. One that stands by writes too, and takes the role only if
what it writes has come back at once for some seconds, in which everybody else had the time to be heard. The same keeps
one that was frozen itself from believing that all others were.

12 s are a little more than Kafka needs to replace a broker that died (9 s until it is given up, then another leads the
partition), so that the end of a broker ends no pipeline unless everything is slow at that moment. 13.5 s leave 1.5 s
to take the role within 15.

What a frozen process does in the milliseconds between its waking and its end is not a matter of time, but of epochs:
routes and cursors are written in transactions that Kafka refuses to the one before, and what is routed bears the epoch
of its writer.
"""

from __future__ import annotations

import time

from penstock.contract.claims import Ledger

RENEW_SECONDS = 1.0
GIVE_UP_SECONDS = 12.0
TAKE_SECONDS = 13.5
LIVE_SECONDS = 3.0
"""For so long what is written must have come back at once before silence means anything."""
PROMPT_SECONDS = 2.0


def now() -> float:
    """Seconds on a clock that never goes back and also runs while the machine sleeps, where there is one."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


class Standby:
    """One that waits for a role."""

    def __init__(self, instance: str, at: float) -> None:
        self._instance = instance
        self._heard = at
        self._live_since: float | None = None
        self._last_back = at

    def holder_spoke(self, at: float) -> None:
        """A record of the holder was read, not one that lay there."""
        self._heard = at

    def came_back(self, sent: float, at: float) -> None:
        """A record of this one's own was read."""
        if at - sent > PROMPT_SECONDS or at - self._last_back > PROMPT_SECONDS + RENEW_SECONDS:
            self._live_since = None
        if at - sent <= PROMPT_SECONDS:
            self._live_since = at if self._live_since is None else self._live_since
        self._last_back = at

    def may_take(self, ledger: Ledger, at: float) -> bool:
        """Whether nobody has the role, or the one that has it must have stopped."""
        if ledger.holder is None or ledger.holder == self._instance:
            return True
        live = self._live_since is not None and at - self._last_back <= PROMPT_SECONDS + RENEW_SECONDS
        steady = live and at - (self._live_since or at) >= LIVE_SECONDS
        return steady and at - self._heard >= TAKE_SECONDS


class ClaimHolder:
    """One that has a role."""

    def __init__(self, epoch: int, sent: float) -> None:
        self.epoch = epoch
        self._confirmed = sent

    def confirmed(self, sent: float) -> None:
        """A renewal that was sent then counts."""
        self._confirmed = max(self._confirmed, sent)

    def why_lost(self, ledger: Ledger, at: float) -> str | None:
        """Why it must stop at once; None where it has the role."""
        if ledger.epoch != self.epoch:
            return f"{ledger.holder} has taken it"
        silent = at - self._confirmed
        if silent >= GIVE_UP_SECONDS:
            return f"it could not be renewed for {silent:.1f} s, and another may take it"
        return None
