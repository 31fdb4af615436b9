"""Threads that give way to deliveries."""

from __future__ import annotations

import contextlib
import os
import threading
from concurrent.futures import ThreadPoolExecutor

NICE = 10


def thread_that_gives_way(name: str) -> ThreadPoolExecutor:
    """One thread for work that can wait. On Linux a thread has a priority of its own, and those it starts have it."""
    return ThreadPoolExecutor(1, name, initializer=_give_way)


def _give_way() -> None:
    if hasattr(os, "setpriority"):
        with contextlib.suppress(OSError):
            lower = max(NICE, os.getpriority(os.PRIO_PROCESS, 0))
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), lower)
