"""The process of one Python component: `python -m penstock.engine.child <component> --settings <file> …`.

The process ends on SIGTERM, when its component ends, and when the supervisor is gone: the pipe from the supervisor
breaks, the component gets its drain time, and then the process exits. It also exits when a thread without an owner ends
with an exception, because the component would look healthy without it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import sys
import threading
from pathlib import Path

from penstock.engine.datadir import load_settings
from penstock.engine.processes import parent_death
from penstock.engine.roles.claim import name_supervised_instance
from penstock.engine.roles.standalone import exit_on_thread_failure, run_role
from penstock.engine.roles.table import Role, loop_factory, role_of
from penstock.observability.logs import configure_logging
from penstock.runtime.lifecycle import Lifecycle
from penstock.settings import Settings

GRACE_SECONDS = 3.0
"""Added to the drain time before a process that lost its supervisor exits."""


def main() -> None:
    """Runs one component."""
    parser = argparse.ArgumentParser(prog="penstock.engine.child")
    parser.add_argument("component")
    parser.add_argument("--settings", type=Path, required=True)
    parser.add_argument("--notify-fd", type=int, default=None)
    parser.add_argument("--life-fd", type=int, default=None)
    arguments = parser.parse_args()
    parent_death.tie(signal.SIGTERM)
    settings = load_settings(arguments.settings)
    configure_logging(arguments.component, "debug" if settings.verbose else "info", stream=sys.stdout)
    name_supervised_instance(arguments.component, settings.data_dir)
    role = role_of(arguments.component)
    with asyncio.Runner(loop_factory=loop_factory(role)) as runner:
        code = runner.run(_run(role, settings, arguments.notify_fd, arguments.life_fd))
        sys.stdout.flush()
        # Without waiting for threads of libraries (librdkafka, py4j).
        os._exit(code)


async def _run(role: Role, settings: Settings, notify_fd: int | None, life_fd: int | None) -> int:
    lifecycle = Lifecycle(notify_fd)
    released = asyncio.Event()
    loop = asyncio.get_running_loop()
    exit_on_thread_failure(lifecycle)
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, lifecycle.stopping.set)
    if life_fd is None:
        released.set()
    else:
        threading.Thread(
            target=_follow_supervisor,
            args=(life_fd, loop, released, lifecycle.stopping, settings.drain_seconds),
            daemon=True,
        ).start()
    return await run_role(role, settings, lifecycle, released)


def _follow_supervisor(
    life_fd: int, loop: asyncio.AbstractEventLoop, released: asyncio.Event, stopping: asyncio.Event, drain: float
) -> None:
    """Waits for bytes from the supervisor, in a thread, so that it works even when the event loop is blocked."""
    while os.read(life_fd, 1):
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(released.set)
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(stopping.set)
    threading.Event().wait(drain + GRACE_SECONDS)
    os._exit(1)


if __name__ == "__main__":
    main()
