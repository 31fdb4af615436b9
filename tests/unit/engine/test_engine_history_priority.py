"""The writer of the history gives way, in a process of its own: a priority once given up is not had back."""

from __future__ import annotations

import os
import subprocess
import sys

SHOW = (
    "import os; from penstock.engine.history.priority import give_way; give_way(); "
    "print(os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0) if hasattr(os, 'SCHED_IDLE') else 'none')"
)


def test_it_runs_while_nothing_else_wants_to() -> None:
    said = subprocess.run([sys.executable, "-c", SHOW], capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["19", str(getattr(os, "SCHED_IDLE", "none"))]
