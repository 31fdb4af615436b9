"""The process of a component ends when a thread or a callback of it does, and says in one line why."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

CHILD = """
import asyncio, threading
import {loop}
from penstock.engine.child import end_with_threads_and_callbacks
from penstock.lifecycle import Lifecycle

async def run():
    loop = asyncio.get_running_loop()
    end_with_threads_and_callbacks(loop, Lifecycle(notify_fd=2))
    {failure}
    await asyncio.sleep(20)

with asyncio.Runner(loop_factory={loop}.new_event_loop) as runner:
    runner.run(run())
"""


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (
            "threading.Thread(target=lambda: 1 / 0, name='reader').start()",
            "the thread reader ended by ZeroDivisionError: division by zero",
        ),
        ("loop.call_soon(lambda: 1 / 0)", "a callback ended by ZeroDivisionError: division by zero"),
        ("loop.call_later(0.01, [].pop)", "a callback ended by IndexError: pop from empty list"),
    ],
)
def test_a_thread_or_callback_that_fails_ends_the_process(loop: str, failure: str, reason: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", CHILD.format(loop=loop, failure=failure)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 1
    assert [json.loads(line) for line in ran.stderr.splitlines() if line.startswith("{")] == [
        {"event": "fail", "reason": reason}
    ]
