"""A worker whose daemon was gone before it asked for its parent knows it; other processes do not mind."""

from __future__ import annotations

import subprocess
import sys

WORKER = """
import os, sys, time
from importlib.machinery import ModuleSpec
from penstock.dispatcher.task import daemon_lives

__spec__ = ModuleSpec(sys.argv[2], None)  # as of a program that `python -m` runs
daemon = os.getpid()
told, tell = os.pipe()
if os.fork():
    if sys.argv[1] == "killed":
        os.kill(daemon, 9)
    os.close(tell)
    os.read(told, 1)
    sys.exit()

def is_there():
    try:
        os.kill(daemon, 0)
    except ProcessLookupError:
        return False
    return True

end = time.monotonic() + 60
while sys.argv[1] == "killed" and is_there() and time.monotonic() < end:
    time.sleep(0.01)
print(is_there(), daemon_lives(), os.getpgrp() == daemon, flush=True)
"""


def asked(fate: str, program: str = "pyspark.daemon") -> str:
    command = [sys.executable, "-c", WORKER, fate, program]
    with subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE, text=True) as daemon:
        daemon.wait(60)  # as Spark's JVM waits for its own: one that is dead but not waited for is still there
        assert daemon.stdout is not None
        return daemon.stdout.read().strip()


def test_a_daemon_that_is_gone_is_missed() -> None:
    assert asked("killed") == "False False True"


def test_one_that_lives_is_not() -> None:
    assert asked("alive") == "True True True"


def test_who_is_no_worker_of_a_daemon_does_not_miss_the_leader_of_its_group() -> None:
    assert asked("killed", "pytest") == "False True True"
