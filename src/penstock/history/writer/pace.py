"""How fast the writer goes: where nothing urges it, it works for a part of the time and rests for the others.

The lowest priority alone does not keep it out of the way: processors share caches, and Linux deals out their time among
sessions first. Who waits for an event would notice, who asks the history would not.
"""

from __future__ import annotations

import time
from collections.abc import Callable

LEISURELY_SHARE = 0.15
"""Of one processor. That is some 4,000 events a second with an attempt each; who gets more for long is urged on."""


class WriterPace:
    """Has whoever calls `rest` between two steps use no more than a share of one processor's time."""

    def __init__(
        self,
        share: float = 1.0,
        urged: Callable[[], bool] = lambda: False,
        *,
        now: Callable[[], float] = time.monotonic,
        used: Callable[[], float] = time.process_time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`urged` says whether to go on without a rest for now; `used` is the processor time of all its threads."""
        self._share, self._urged, self._now, self._used, self._sleep = share, urged, now, used, sleep
        self._since = now(), used()

    def slow_down(self, share: float) -> None:
        """From the next step on it is to be this share."""
        self._share = share

    def rest(self) -> None:
        """Rests for as long as the last step asks for."""
        began, used = self._since
        due = (self._used() - used) / self._share - (self._now() - began)
        if self._share < 1 and due > 0 and not self._urged():
            self._sleep(due)
        self._since = self._now(), self._used()
