"""Noticing that the router's thread hangs, from outside of it.

That thread asks Spark's JVM, and a call to a JVM that does not answer never returns. So before anything that may hang
the thread says what it does and how long that may take, and another thread looks whether it has said something new
since. A thread that hangs cannot be ended, only its process can.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass

from penstock.router.watching.lived_time import LivedTime

TURN_SECONDS = 60.0
"""How long anything may take for which no other limit is given. What is usual are milliseconds, and Kafka has 5 s; but
on a machine where everything waits for a processor an end in error would make all wait longer."""

LOOK_SECONDS = 1.0


@dataclass(frozen=True, eq=False)
class Beat:
    """What the watched thread does now, and how many seconds it may take. Each one is different from all others."""

    doing: str
    seconds: float


class HangWatchdog:
    """Calls `hanging`, from a thread of its own, when the watched thread takes too long."""

    def __init__(self, hanging: Callable[[str], None], clock: Callable[[], float] | None = None) -> None:
        self._hanging = hanging
        self._clock = clock or LivedTime(2 * LOOK_SECONDS)
        self._beat = self._seen = Beat("begins", TURN_SECONDS)
        self._since = self._clock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="router's watchdog", daemon=True)

    def start(self) -> None:
        """Begins to watch."""
        self._thread.start()

    def stop(self) -> None:
        """Ends watching."""
        self._stop.set()
        self._thread.join(timeout=2 * LOOK_SECONDS)

    def beat(self, doing: str = "routes", seconds: float = TURN_SECONDS) -> None:
        """The watched thread lives, and will say so again within these seconds."""
        self._beat = Beat(doing, seconds)

    def look(self) -> str | None:
        """What the watched thread hangs in; None while all is well."""
        now, beat = self._clock(), self._beat
        if beat is not self._seen:
            self._seen, self._since = beat, now
        waited = now - self._since
        return None if waited <= beat.seconds else f"{beat.doing}, for {waited:.0f} s"

    def _run(self) -> None:
        """Should looking itself fail, then nothing is watched any more, which is as bad as hanging."""
        try:
            while not self._stop.wait(LOOK_SECONDS):
                if (found := self.look()) is not None:
                    self._hanging(found)
                    return
        except Exception as error:
            self._hanging(f"its watchdog failed: {type(error).__name__}: {error}")


def stack_of(thread: threading.Thread) -> list[str]:
    """Where a thread is, innermost last: what a person needs to know about a hang."""
    frame = sys._current_frames().get(thread.ident or 0)
    return (
        []
        if frame is None
        else [f"{each.filename}:{each.lineno} {each.name}" for each in traceback.extract_stack(frame)]
    )
