"""The process of one Python component: `python -m penstock.engine.child <component> --settings <file> …`.

It ends when it is told to (SIGTERM), when its component ends, and when the supervisor is gone: the pipe to it breaks,
the component gets its drain time, and after that the process ends whatever it is doing. It also ends when a thread that
has no other owner ends by an exception: what is half dead must not look alive.
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

import structlog

from penstock.engine import components
from penstock.engine.processes import parent_death
from penstock.lifecycle import Lifecycle
from penstock.observability.logs import configure_logging
from penstock.settings import Settings

GRACE_SECONDS = 3.0
"""Beyond the drain time, before a process that lost its supervisor ends itself."""

log = structlog.get_logger()


def main() -> None:
    """Runs one component."""
    parser = argparse.ArgumentParser(prog="penstock.engine.child")
    parser.add_argument("component")
    parser.add_argument("--settings", type=Path, required=True)
    parser.add_argument("--notify-fd", type=int, default=None)
    parser.add_argument("--life-fd", type=int, default=None)
    arguments = parser.parse_args()
    parent_death.tie(signal.SIGTERM)
    settings = components.load_settings(arguments.settings)
    configure_logging(arguments.component, "debug" if settings.verbose else "info", stream=sys.stdout)
    with asyncio.Runner(loop_factory=components.loop_factory(arguments.component)) as runner:
        code = runner.run(_run(arguments.component, settings, arguments.notify_fd, arguments.life_fd))
        sys.stdout.flush()
        # Threads of libraries (librdkafka, py4j) must not hold up a process whose component has ended.
        os._exit(code)


async def _run(name: str, settings: Settings, notify_fd: int | None, life_fd: int | None) -> int:
    lifecycle = Lifecycle(notify_fd)
    released = asyncio.Event()
    loop = asyncio.get_running_loop()
    end_with_threads(lifecycle)
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, lifecycle.stopping.set)
    if life_fd is None:
        released.set()
    else:
        threading.Thread(
            target=_watch, args=(life_fd, loop, released, lifecycle.stopping, settings.drain_seconds), daemon=True
        ).start()
    log.info("starting", pid=os.getpid())
    try:
        await components.run(name, settings, lifecycle, released)
    except Exception as error:
        log.exception("the component failed")
        lifecycle.fail(_reason(error))
        return 1
    if not lifecycle.stopping.is_set():
        lifecycle.fail("it ended without being told to")
        return 1
    log.info("ended")
    return 0


def end_with_threads(lifecycle: Lifecycle) -> None:
    """Ends this process when a thread ends by an exception that no owner took. Callbacks have owners in their rooms:
    here an error of one hostile connection could not be told from a defect."""

    def ended(arguments: threading.ExceptHookArgs) -> None:
        error = arguments.exc_value
        if error is None:
            return
        what = f"the thread {arguments.thread.name if arguments.thread else '?'}"
        log.error(f"{what} ended by an exception", exc_info=error)
        lifecycle.fail(f"{what} ended by {_reason(error)}")
        sys.stdout.flush()
        os._exit(1)

    threading.excepthook = ended


def _reason(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}".splitlines()[0][:500]


def _watch(
    life_fd: int, loop: asyncio.AbstractEventLoop, released: asyncio.Event, stopping: asyncio.Event, drain: float
) -> None:
    """A thread, because it must also notice when the loop is stuck."""
    while os.read(life_fd, 1):
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(released.set)
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(stopping.set)
    threading.Event().wait(drain + GRACE_SECONDS)
    os._exit(1)


if __name__ == "__main__":
    main()
