"""The writer of the history gives way, in a process of its own: a priority once given up is not had back."""

from __future__ import annotations

import os
import subprocess
import sys

from penstock.engine.history.low_priority import AUTOGROUP

SHOW = """
import os, threading
from penstock.engine.history.low_priority import AUTOGROUP, lower_priority
started, ending = threading.Event(), threading.Event()
def wait():
    started.set()
    ending.wait()
thread = threading.Thread(target=wait, daemon=True)
thread.start()
started.wait()
lower_priority()
for one in (0, thread.native_id):
    print(os.getpriority(os.PRIO_PROCESS, one), os.sched_getscheduler(one) if hasattr(os, "SCHED_IDLE") else "none")
print(AUTOGROUP.read_text() if AUTOGROUP.exists() else "")
"""
WAY = ["19", str(getattr(os, "SCHED_IDLE", "none"))]


def shown(own_session: bool) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", SHOW],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        start_new_session=own_session,
    )
    return done.stdout.split()


def test_it_runs_while_nothing_else_wants_to_with_all_its_threads() -> None:
    assert shown(own_session=True)[:4] == [*WAY, *WAY]


def test_a_session_of_its_own_comes_last_and_that_of_others_is_left_alone() -> None:
    # What Linux shows is "/autogroup-4 nice 0", and nothing for the first session of a machine.
    grouped = AUTOGROUP.read_text().split() if AUTOGROUP.exists() else []
    assert shown(own_session=True)[-1:] == (["19"] if AUTOGROUP.exists() else WAY[-1:])
    assert shown(own_session=False)[4:] == grouped
