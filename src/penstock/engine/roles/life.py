"""One life of a role in its process, from the first line of its log to the exit code."""

from __future__ import annotations

import asyncio
import os
import sys
import threading

import structlog

from penstock.engine.problem import Problem
from penstock.engine.roles.table import Role
from penstock.lifecycle import Lifecycle
from penstock.settings import Settings

log = structlog.get_logger()


async def live(role: Role, settings: Settings, lifecycle: Lifecycle, released: asyncio.Event) -> int:
    """Runs the role to its end; the exit code of the process."""
    log.info("starting", pid=os.getpid())
    try:
        await role.run(settings, lifecycle, released)
    except Problem as problem:
        log.error(problem.what, remedy=problem.remedy)
        lifecycle.fail(str(problem))
        return 1
    except Exception as error:  # the process ends; its supervisor is shown why
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
