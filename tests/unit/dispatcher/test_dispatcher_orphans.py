"""A worker whose daemon was gone before it asked for its parent knows it."""

from __future__ import annotations

import subprocess
import sys

WORKER = """
import os, sys, time
from penstock.dispatcher.task import leader_lives

daemon = os.getpid()
told, tell = os.pipe()
if os.fork():
    if sys.argv[1] == "killed":
        os.kill(daemon, 9)
    os.close(tell)
    os.read(told, 1)
    sys.exit()
end = time.monotonic() + 10
while sys.argv[1] == "killed" and leader_lives() and time.monotonic() < end:
    time.sleep(0.01)
print(leader_lives(), os.getpgrp() == daemon, flush=True)
"""


def asked(fate: str) -> str:
    command = [sys.executable, "-c", WORKER, fate]
    with subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE, text=True) as daemon:
        daemon.wait(60)  # as Spark's JVM waits for its own: one that is dead but not waited for is still there
        assert daemon.stdout is not None
        return daemon.stdout.read().strip()


def test_a_daemon_that_is_gone_is_missed() -> None:
    assert asked("killed") == "False True"


def test_one_that_lives_is_not() -> None:
    assert asked("alive") == "True True"
