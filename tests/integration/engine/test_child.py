"""The process of a component ends when a thread of it does, and says in one line why."""

from __future__ import annotations

import json
import subprocess
import sys

CHILD = """
import threading, time
from penstock.engine.roles.standalone import exit_on_thread_failure
from penstock.runtime.lifecycle import Lifecycle

exit_on_thread_failure(Lifecycle(notify_fd=2))
threading.Thread(target=lambda: 1 / 0, name="reader").start()
time.sleep(20)
"""


def test_a_thread_that_fails_ends_the_process() -> None:
    ran = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 1
    assert [json.loads(line) for line in ran.stderr.splitlines() if line.startswith("{")] == [
        {"event": "fail", "reason": "the thread reader ended by ZeroDivisionError: division by zero"}
    ]
