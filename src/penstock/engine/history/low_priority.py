"""How the history writer yields to all other processes."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass


# How the writer gives way to everything else.

SLOW_DOWN = signal.SIGUSR1
"""Tells a writer that hurries that it need not any more."""
LOWEST = 19
THREADS = Path("/proc/self/task")
SESSION = Path("/proc/self/autogroup")
"""Empty where the session is the first of the machine."""
TRIES, TRY_SECONDS = 10, 0.1
"""Linux lets those who are not root change one such priority every tenth of a second, all together."""


def give_way() -> None:
    """Has this process run while nothing else wants to: on Linux whoever wakes takes its processor at once.

    Being nice alone would let it finish its turn first, which every step of a delivery would have to wait for. And as
    Linux deals out time among sessions before it looks at their processes, a session of its own is put last, too.
    """
    if not THREADS.is_dir():
        os.nice(LOWEST)
        return
    for thread in map(int, os.listdir(THREADS)):
        with contextlib.suppress(OSError):  # one that has ended meanwhile
            os.setpriority(os.PRIO_PROCESS, thread, LOWEST)
            os.sched_setscheduler(thread, os.SCHED_IDLE, os.sched_param(0))
    if os.getsid(0) == os.getpid():
        _put_session_last()


def _put_session_last() -> None:
    for _ in range(TRIES):
        try:
            SESSION.write_text(str(LOWEST))
        except BlockingIOError:
            time.sleep(TRY_SECONDS)
        except OSError:  # a kernel that does not group by sessions
            return
        else:
            return
